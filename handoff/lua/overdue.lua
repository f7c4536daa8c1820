-- Name the live requests that the reconciler should look at, and set the time of the next look.
-- KEYS[1]: due set. ARGV: prefix, most requests, recheck ms. Returns {now, rid, rid, …}.
local now = now_ms()
local rids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now), 'LIMIT', 0, ARGV[2])
for _, rid in ipairs(rids) do
  local deadline = redis.call('HGET', prefix .. 'r:' .. rid, 'deadline')
  if deadline then
    -- One that is overdue already is looked at now; should that fail, again after the usual while.
    local late = now >= tonumber(deadline)
    redis.call('ZADD', KEYS[1], late and whole(now + tonumber(ARGV[3])) or next_look(now, ARGV[3], deadline), rid)
  else
    redis.call('ZREM', KEYS[1], rid)
  end
end
table.insert(rids, 1, whole(now))
return rids

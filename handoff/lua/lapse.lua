-- Take back requests whose scheduler stopped renewing its lease, and park them again for the next one. What has been tried
-- often enough stays as it is: see worn.lua.
-- KEYS[1]: leases. ARGV: prefix, node, model, most requests, most attempts. Returns the ids of what was parked again.
local back = {}
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms()), 'LIMIT', 0, ARGV[4])
for _, rid in ipairs(due) do
  local record = prefix .. 'r:' .. rid
  local f = redis.call('HMGET', record, 'state', 'priority', 'deadline', 'reply', 'attempt', 'lapses')
  if f[1] ~= 'admitted' then
    redis.call('ZREM', KEYS[1], rid)
  elseif tries(f[5], f[6]) < tonumber(ARGV[5]) then
    redis.call('ZREM', KEYS[1], rid)
    redis.call('HDEL', record, 'claim', 'scheduler')
    redis.call('HSET', record, 'state', 'parked')
    redis.call('HINCRBY', record, 'lapses', 1)
    park(ARGV[2], ARGV[3], rid, f[2], f[3])
    tell_state(f[4], rid, 'parked', f[5])
    back[#back + 1] = rid
  end
end
return back

-- Name a node's requests of one model that its janitor should look at now, and set the time of the next look.
-- KEYS[1]: watched set. ARGV: prefix, node, model, most requests, recheck ms. Returns {now, rid, rid, …}.
local now = now_ms()
local reply, looked = {whole(now)}, prefix .. 'looked:' .. ARGV[2]
for _, rid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now), 'LIMIT', 0, ARGV[4])) do
  if is_still_there(ARGV[2], ARGV[3], rid) then
    watch(ARGV[2], ARGV[3], rid, now + tonumber(ARGV[5]))
    reply[#reply + 1] = rid
  end
end
-- Whoever would take them over sees by this that somebody looks.
redis.call('HSET', looked, ARGV[3], whole(now))
keep(looked)
return reply

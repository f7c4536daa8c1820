-- Name the requests whose lease has ended over their last attempt: they are not parked again, and whoever asks ends them.
-- KEYS[1]: leases. ARGV: prefix, node, model, most requests, most attempts. Returns the request ids.
local worn = {}
for _, rid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now_ms()), 'LIMIT', 0, ARGV[4])) do
  local f = redis.call('HMGET', prefix .. 'r:' .. rid, 'state', 'attempt', 'lapses')
  if f[1] == 'admitted' and tries(f[2], f[3]) >= tonumber(ARGV[5]) then
    worn[#worn + 1] = rid
  end
end
return worn

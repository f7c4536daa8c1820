-- End what is past its deadline, the longest overdue first, whoever has it and wherever it is.
-- KEYS[1]: due set. ARGV: prefix, most requests, retention ms, problem, recheck ms.
-- Returns {how many names were looked at, rid, state before, rid, state before, …}.
local now = now_ms()
local late = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(now), 'LIMIT', 0, ARGV[2])
local reply = {#late}
for _, rid in ipairs(late) do
  local record = prefix .. 'r:' .. rid
  local f = redis.call('HMGET', record, 'state', 'deadline', 'node', 'model')
  if not f[1] or ENDS[f[1]] then
    redis.call('ZREM', KEYS[1], rid)
  elseif now < tonumber(f[2]) then
    -- Put there by an earlier release, by the time of its next look.
    redis.call('ZADD', KEYS[1], f[2], rid)
    if f[3] ~= '' then
      watch(f[3], f[4], rid, now + tonumber(ARGV[5]))
    end
  else
    redis.call('HSET', record, 'ended_by', 'deadline')
    finish(record, rid, 'expired', ARGV[3], ARGV[4], '')
    reply[#reply + 1] = rid
    reply[#reply + 1] = f[1]
  end
end
return reply

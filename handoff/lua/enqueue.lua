-- Put a request's message on a node's queue, in the same step that says so in the record.
-- ARGV: prefix, rid, token, attempt, body, node, lane, queue list, message, bytes of its media by now (-1: as before),
-- recheck ms.
-- Returns {'ok'} | {'refused', state or ''}.
local f = redis.call('HMGET', KEYS[1], 'state', 'token', 'attempt', 'reply', 'model', 'tenant', 'size')
local state, token, attempt, reply = unpack(f)
if not state or token ~= ARGV[3] or attempt ~= ARGV[4] then
  return {'refused', state or ''}
end
if state == 'accepted' then
  local now = now_ms()
  if tonumber(ARGV[10]) >= 0 then
    redis.call('HINCRBY', prefix .. 'tenant:' .. f[6], 'bytes', whole(ARGV[10] - f[7]))
    redis.call('HSET', KEYS[1], 'size', ARGV[10])
  end
  redis.call('HSET', KEYS[1], 'state', 'queued', 'body', ARGV[5], 'node', ARGV[6], 'lane', ARGV[7],
    't_queued', whole(now), 'message', ARGV[9])
  redis.call('ZADD', lane_key('line', ARGV[6], ARGV[7]), whole(now), ARGV[2])
  watch(ARGV[6], f[5], ARGV[2], now + tonumber(ARGV[11]))
  redis.call('LPUSH', ARGV[8], ARGV[9])
  ring(ARGV[6])
  tell_state(reply, ARGV[2], 'queued', attempt)
  return {'ok'}
end
if ENDS[state] then
  return {'refused', state}
end
return {'ok'}

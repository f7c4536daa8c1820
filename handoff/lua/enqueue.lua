-- Put a request's message on a node's queue, in the same step that says so in the record.
-- ARGV: prefix, rid, token, attempt, body, node, lane, message, bytes of its media by now (-1: as before),
-- recheck ms.
-- Returns {'ok'} | {'refused', state or ''}.
local f = redis.call('HMGET', KEYS[1], 'state', 'token', 'attempt', 'reply', 'model', 'tenant', 'size')
local state, token, attempt, reply = unpack(f)
if not state or token ~= ARGV[3] or attempt ~= ARGV[4] then
  return {'refused', state or ''}
end
if state == 'accepted' then
  local now = now_ms()
  if tonumber(ARGV[9]) >= 0 then
    redis.call('HINCRBY', prefix .. 'tenant:' .. f[6], 'bytes', whole(ARGV[9] - f[7]))
    redis.call('HSET', KEYS[1], 'size', ARGV[9])
  end
  redis.call('HSET', KEYS[1], 'state', 'queued', 'body', ARGV[5], 'node', ARGV[6], 'lane', ARGV[7],
    't_queued', whole(now), 'message', ARGV[8])
  stand_in_line(ARGV[6], ARGV[7], ARGV[2], now)
  watch(ARGV[6], f[5], ARGV[2], now + tonumber(ARGV[10]))
  push(ARGV[6], ARGV[7], ARGV[8], 'LEFT')
  ring(ARGV[6])
  tell_state(reply, ARGV[2], 'queued', attempt)
  return {'ok'}
end
if ENDS[state] then
  return {'refused', state}
end
return {'ok'}

-- Put a request back on a queue: its message, worker or node has gone.
-- ARGV: prefix, rid, state seen, attempt seen, next attempt, node, queue list, message, recheck ms.
-- Returns {'ok'} | {'refused', state or ''}: somebody moved it in between.
local state, attempt = unpack(redis.call('HMGET', KEYS[1], 'state', 'attempt'))
if state ~= ARGV[3] or attempt ~= ARGV[4] then
  return {'refused', state or ''}
end
local now = now_ms()
redis.call('HSET', KEYS[1], 'state', 'queued', 'attempt', ARGV[5], 'owner', '', 'node', ARGV[6],
  't_queued', whole(now))
redis.call('ZADD', prefix .. 'due', whole(now + tonumber(ARGV[9])), ARGV[2])
redis.call('LPUSH', ARGV[7], ARGV[8])
return {'ok'}

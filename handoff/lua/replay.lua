-- Put a request back on a queue under its next attempt: its message, worker or node has gone.
-- ARGV: prefix, rid, state seen, attempt seen, node, queue list, message of the next attempt, recheck ms.
-- Returns {'ok'} | {'refused', state or ''}: somebody moved it in between.
local state, attempt = unpack(redis.call('HMGET', KEYS[1], 'state', 'attempt'))
if state ~= ARGV[3] or attempt ~= ARGV[4] then
  return {'refused', state or ''}
end
local now = now_ms()
redis.call('HINCRBY', KEYS[1], 'attempt', 1)
redis.call('HSET', KEYS[1], 'state', 'queued', 'owner', '', 'node', ARGV[5], 't_queued', whole(now))
redis.call('ZADD', prefix .. 'due', whole(now + tonumber(ARGV[8])), ARGV[2])
redis.call('LPUSH', ARGV[6], ARGV[7])
return {'ok'}

-- Put a request back on a queue: its message, worker or node has gone.
-- ARGV: prefix, rid, state seen, attempt seen, token seen, next attempt, node, message, recheck ms.
-- Returns {'ok'} | {'refused', state or ''}: somebody moved it in between.
local f = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'token', 'node', 'model', 'replayed', 'lane', 'reply')
local mark = redis.sha1hex(ARGV[8]) -- every message carries a tag of its own
if f[6] == mark then
  return {'ok'}
end
if f[1] ~= ARGV[3] or f[2] ~= ARGV[4] or f[3] ~= ARGV[5] then
  return {'refused', f[1] or ''}
end
local now = now_ms()
redis.call('ZREM', lane_key('parked', f[4], f[5]), ARGV[2])
redis.call('ZREM', lane_key('leases', f[4], f[5]), ARGV[2])
redis.call('ZREM', lane_key('line', f[4], f[7]), ARGV[2])
stand_in_line(ARGV[7], f[7], ARGV[2], now)
redis.call('HDEL', KEYS[1], 'ticket', 'claim', 'scheduler')
redis.call('HSET', KEYS[1], 'state', 'queued', 'attempt', ARGV[6], 'owner', '', 'node', ARGV[7],
  't_queued', whole(now), 'replayed', mark, 'message', ARGV[8])
unwatch(f[4], f[5], ARGV[2])
watch(ARGV[7], f[5], ARGV[2], now + tonumber(ARGV[9]))
push(ARGV[7], f[7], ARGV[8], 'LEFT')
ring(ARGV[7])
tell_state(f[8], ARGV[2], 'queued', ARGV[6])
return {'ok'}

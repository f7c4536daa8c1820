-- Put a request's message on its queue again, if it is in no list any more. It has waited: it is the next to be taken.
-- ARGV: prefix, rid, attempt seen, token seen, message.
-- Returns {'ok'} | {'refused', state or ''}: somebody moved it in between, or the message is there.
local f = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'token', 'node', 'replayed', 'lane')
local mark = redis.sha1hex(ARGV[5])
if f[5] == mark then
  return {'ok'}
end
if f[1] ~= 'queued' or f[2] ~= ARGV[3] or f[3] ~= ARGV[4] or not is_lost(KEYS[1]) then
  return {'refused', f[1] or ''}
end
redis.call('HSET', KEYS[1], 'message', ARGV[5], 'replayed', mark)
redis.call('HINCRBY', KEYS[1], 'resent', 1)
push(f[4], f[6], ARGV[5], 'RIGHT')
ring(f[4])
return {'ok'}

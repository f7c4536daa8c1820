-- A worker takes a request. The same owner may ask again; another one only when it has seen the first owner dead.
-- ARGV: prefix, rid, attempt of the message, owner, dead owner or '', '1' to have the body.
-- Returns {'run', attempt, body or ''} | {'busy', owner} | {'expired'} | {'refused', state or ''}.
local f = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'owner', 'deadline', 'body')
local state, attempt, owner = f[1], f[2], f[3]
local body = ARGV[6] == '1' and f[5] or ''
if not state or ENDS[state] then
  return {'refused', state or ''}
end
if state == 'processing' and owner == ARGV[4] then
  return {'run', attempt, body}
end
if attempt ~= ARGV[3] then
  return {'refused', state}
end
if state == 'processing' and owner == ARGV[5] then
  attempt = redis.call('HINCRBY', KEYS[1], 'attempt', 1)
elseif state == 'processing' then
  return {'busy', owner}
elseif state ~= 'queued' then
  return {'refused', state}
end
local now = now_ms()
if now >= tonumber(f[4]) then
  return {'expired'}
end
redis.call('HSET', KEYS[1], 'state', 'processing', 'owner', ARGV[4], 't_processing', whole(now))
return {'run', attempt, body}

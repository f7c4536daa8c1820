-- A worker takes a request. The same owner may ask again; another one only when it has seen the first owner dead.
-- ARGV: prefix, rid, token of the message, owner, dead owner or '', '1' to have the body, most attempts.
-- Returns {'run', attempt, body or '', ms to the deadline} | {'busy', owner} | {'expired', state, attempt}
-- | {'abandoned', attempt} | {'refused', state or ''}.
local f = redis.call('HMGET', KEYS[1], 'state', 'token', 'owner', 'deadline', 'body', 'attempt', 'node', 'lane', 'reply',
  'lapses')
local state, owner, attempt = f[1], f[3], f[6]
local body = ARGV[6] == '1' and f[5] or ''
if not state or ENDS[state] or f[2] ~= ARGV[3] then
  return {'refused', state or ''}
end
local now = now_ms()
local left = whole(math.max(0, tonumber(f[4]) - now))
if state == 'processing' and owner == ARGV[4] then
  return {'run', attempt, body, left}
end
if state ~= 'queued' and state ~= 'processing' then
  return {'refused', state}
end
if state == 'processing' and owner ~= ARGV[5] then
  return {'busy', owner}
end
if now >= tonumber(f[4]) then
  return {'expired', state, attempt}
end
if state == 'processing' then
  if tries(attempt, f[10]) >= tonumber(ARGV[7]) then
    return {'abandoned', attempt}
  end
  attempt = redis.call('HINCRBY', KEYS[1], 'attempt', 1)
end
redis.call('ZREM', lane_key('line', f[7], f[8]), ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'processing', 'owner', ARGV[4], 't_processing', whole(now))
redis.call('HDEL', KEYS[1], 'message')
tell_state(f[9], ARGV[2], 'processing', attempt)
return {'run', attempt, body, left}

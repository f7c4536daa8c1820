-- End a request, for whoever holds it now.
-- ARGV: prefix, rid, fence, value, end state, retention ms, problem, result.
-- Fences: 'token' (the API, before it is queued), 'owner' (a worker: attempt/owner), 'claim' (a scheduler),
-- 'attempt' (the reconciler: state/attempt/token, as it saw them).
-- Returns {'ok'} | {'refused', state or ''}.
local f = redis.call('HMGET', KEYS[1], 'state', 'token', 'attempt', 'owner', 'claim', 'ended_by')
local state = f[1]
if not state then
  return {'refused', ''}
end
if ENDS[state] then
  local replay = state == ARGV[5] and f[6] == ARGV[3] .. ARGV[4]
  return replay and {'ok'} or {'refused', state}
end
local held = {
  token = state == 'accepted' and f[2],
  owner = state == 'processing' and f[3] .. '/' .. (f[4] or ''),
  claim = state == 'admitted' and f[5],
  attempt = state .. '/' .. f[3] .. '/' .. f[2],
}
if held[ARGV[3]] ~= ARGV[4] then
  return {'refused', state}
end
redis.call('HSET', KEYS[1], 'ended_by', ARGV[3] .. ARGV[4])
finish(KEYS[1], ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
return {'ok'}

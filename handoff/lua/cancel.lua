-- The caller no longer wants the answer. Harmless on what has ended or was never there.
-- ARGV: prefix, rid, retention ms, problem, token of the acceptance that is meant, or '' for whichever has the id.
-- Returns the state before, or '' when there is no such request.
local f = redis.call('HMGET', KEYS[1], 'state', 'token')
if not f[1] or (ARGV[5] ~= '' and f[2] ~= ARGV[5]) then
  return ''
end
if not ENDS[f[1]] then
  finish(KEYS[1], ARGV[2], 'cancelled', ARGV[3], ARGV[4], '')
end
return f[1]

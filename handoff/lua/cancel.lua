-- The caller no longer wants the answer. Harmless on what has ended or was never there.
-- ARGV: prefix, rid, retention ms, problem. Returns the state before, or '' when there is no such request.
local state = redis.call('HGET', KEYS[1], 'state')
if state and not ENDS[state] then
  finish(KEYS[1], ARGV[2], 'cancelled', ARGV[3], ARGV[4], '')
end
return state or ''

-- Make a finished result visible to schedulers. The features are written by now; the ticket comes last.
-- ARGV: prefix, rid, attempt, owner, ticket, prompt tokens, timings.
-- Returns {'ok'} | {'refused', state or ''}: the caller frees its block when refused.
local f = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'owner', 'node', 'model', 'priority', 'deadline', 'reply')
if not f[1] or f[2] ~= ARGV[3] or f[3] ~= ARGV[4] then
  return {'refused', f[1] or ''}
end
if f[1] ~= 'processing' then
  -- Parked by this very owner before: a replay. Once it is claimed or ended, the block is no longer the worker's.
  return (f[1] == 'parked' or f[1] == 'admitted' or f[1] == 'done') and {'ok'} or {'refused', f[1]}
end
redis.call('HSET', KEYS[1], 'state', 'parked', 'ticket', ARGV[5], 'tokens', ARGV[6], 'timings', ARGV[7],
  't_parked', whole(now_ms()))
park(f[4], f[5], ARGV[2], f[6], f[7])
tell_state(f[8], ARGV[2], 'parked', f[2])
return {'ok'}

-- A worker puts a message back on its queue.
-- KEYS[1]: takers. ARGV: prefix, node, life of the worker, lane, message, 'RIGHT' to be the next one or 'LEFT' the last.
-- Returns 1, or 0 when it does not have it (any more).
local lane = ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[4]
if redis.call('LREM', prefix .. 'taken:' .. lane, 1, ARGV[5]) == 0 then
  return 0
end
push(ARGV[2], ARGV[4], ARGV[5], ARGV[6])
ring(ARGV[2])
return 1

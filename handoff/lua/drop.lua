-- A worker has done with messages.
-- KEYS[1]: takers. ARGV: prefix, node, life of the worker, then lane, message, lane, message, … Returns how many it had.
local gone = 0
for i = 4, #ARGV, 2 do
  gone = gone + redis.call('LREM', prefix .. 'taken:' .. ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[i], 1, ARGV[i + 1])
end
return gone

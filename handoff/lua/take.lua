-- A worker takes the oldest message of the first lane that has one. It goes into the list of what this worker has in
-- hand in the same step: there is no moment in which it is in no list.
-- KEYS[1]: bell. ARGV: prefix, node, life of the worker, lane, lane, … in the order in which they are asked.
-- Returns {lane, message} | {}.
local node, life = ARGV[2], ARGV[3]
local reply, is_more = {}, false
for i = 4, #ARGV do
  local queue = prefix .. 'mm.' .. node .. '.' .. ARGV[i]
  if not reply[1] then
    local taken = prefix .. 'taken:' .. node .. ':' .. life .. ':' .. ARGV[i]
    local message = redis.call('LMOVE', queue, taken, 'RIGHT', 'LEFT')
    if message then
      redis.call('SADD', prefix .. 'takers:' .. node, life)
      keep(prefix .. 'takers:' .. node)
      keep(taken)
      reply = {ARGV[i], message}
    end
  end
  is_more = is_more or redis.call('EXISTS', queue) == 1
end
-- The bell holds one token however much was pushed: who takes it rings again for the rest.
if is_more then
  ring(node)
end
return reply

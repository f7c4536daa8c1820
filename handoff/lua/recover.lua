-- Put back all that a worker has in hand, in the order in which it was queued, but for what it says it knows of.
-- KEYS[1]: takers. ARGV: prefix, node, life of the worker, number of lanes, the lanes, then the messages to keep.
-- Returns how many went back.
local node, life, lanes = ARGV[2], ARGV[3], tonumber(ARGV[4])
local kept, back, left = {}, 0, 0
for i = 5 + lanes, #ARGV do
  kept[ARGV[i]] = (kept[ARGV[i]] or 0) + 1
end
for i = 5, 4 + lanes do
  local taken = prefix .. 'taken:' .. node .. ':' .. life .. ':' .. ARGV[i]
  -- The newest first: each goes to the end that is taken from, so the oldest is the next one again.
  for _, message in ipairs(redis.call('LRANGE', taken, 0, -1)) do
    if (kept[message] or 0) > 0 then
      kept[message] = kept[message] - 1
      left = left + 1
    else
      redis.call('LREM', taken, 1, message)
      push(node, ARGV[i], message, 'RIGHT')
      back = back + 1
    end
  end
end
if left == 0 then
  redis.call('SREM', KEYS[1], life)
end
if back > 0 then
  ring(node)
end
return back

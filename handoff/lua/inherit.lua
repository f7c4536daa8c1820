-- Put back what a dead worker had in hand, in the order in which it was queued. What too many have died over stays where
-- it is: whoever asks puts it aside, and one that dies before that asks again.
-- KEYS[1]: takers. ARGV: prefix, node, life of the worker, most deaths, how long they are remembered in s, the lanes.
-- Returns {how many went back, lane, message, lane, message, …}.
local node, life, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local deaths = prefix .. 'deaths:' .. node
local back, reply = 0, {0}
for i = 6, #ARGV do
  local taken = prefix .. 'taken:' .. node .. ':' .. life .. ':' .. ARGV[i]
  -- The newest first: each goes to the end that is taken from, so the oldest is the next one again.
  for _, message in ipairs(redis.call('LRANGE', taken, 0, -1)) do
    local died = redis.call('HINCRBY', deaths, redis.sha1hex(message), 1)
    redis.call('EXPIRE', deaths, ARGV[5])
    if died > most then
      reply[#reply + 1] = ARGV[i]
      reply[#reply + 1] = message
    else
      redis.call('LREM', taken, 1, message)
      push(node, ARGV[i], message, 'RIGHT')
      back = back + 1
    end
  end
end
if not reply[2] then
  redis.call('SREM', KEYS[1], life)
end
if back > 0 then
  ring(node)
end
reply[1] = back
return reply

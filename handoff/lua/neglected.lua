-- Name other nodes' requests that nobody looks at: of a node that is silent, or whose workers no longer serve the model.
-- What a living scheduler has, or may claim, is not among the latter.
-- The time of their next look stays as it is, so that what one janitor leaves, another takes up.
-- KEYS[1]: nodes. ARGV: prefix, own node, silence ms, recheck ms, most requests, the models that are served here.
-- Returns {now, rid, rid, …}.
local now, most = now_ms(), tonumber(ARGV[5])
local since = now - tonumber(ARGV[3])
local reply = {whole(now)}

-- A janitor of an earlier release looks in its own way, and says only that it is there.
local function is_looked_after(node, model)
  local looked = redis.call('HGET', prefix .. 'looked:' .. node, model)
  if looked then
    return tonumber(looked) > since
  end
  return redis.call('EXISTS', prefix .. 'janitor:' .. node) == 1
end

local function has_lapsed(node, model, rid)
  local ends = redis.call('ZSCORE', lane_key('leases', node, model), rid)
  return ends and tonumber(ends) <= now
end

local function is_left(node, model, rid, state)
  return state == 'queued' or state == 'processing' or (state == 'admitted' and has_lapsed(node, model, rid))
end

local function add(node, model, is_silent)
  local watched = lane_key('watch', node, model)
  for _, rid in ipairs(redis.call('ZRANGEBYSCORE', watched, '-inf', whole(now), 'LIMIT', 0, most + 1 - #reply)) do
    local there, state = is_still_there(node, model, rid)
    if there and (is_silent or is_left(node, model, rid, state)) then
      reply[#reply + 1] = rid
    elseif there then
      watch(node, model, rid, now + tonumber(ARGV[4]))
    end
  end
end

local names = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #names, 2 do
  local is_silent = tonumber(names[i + 1]) < since
  for j = 6, #ARGV do
    if names[i] ~= ARGV[2] and #reply <= most and (is_silent or not is_looked_after(names[i], ARGV[j])) then
      add(names[i], ARGV[j], is_silent)
    end
  end
end
return reply

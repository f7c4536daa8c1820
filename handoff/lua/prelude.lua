-- Shared by every move. KEYS[1] is the record of the request, ARGV[1] the key prefix, ARGV[2] the request id,
-- unless the file says otherwise. Every move is idempotent: a replayed call finds its own mark and answers the same.
-- Key names are built here from the prefix, so a deployment lives on one Redis, not on a cluster.

local prefix = ARGV[1]
local ENDS = {done = true, rejected = true, failed = true, expired = true, cancelled = true}

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function whole(number)
  return string.format('%.0f', number)
end

local function lane_key(kind, node, model)
  return prefix .. kind .. ':' .. node .. ':' .. model
end

-- Every key of a node ends a day after something was last put there, longer than any request lives: a node that is gone for
-- good leaves nothing, and one that comes back finds what is still of use.
local KEPT_MS = 86400000

local function keep(key)
  redis.call('PEXPIRE', key, KEPT_MS)
end

-- Lower scores go first: higher priority, then the earlier deadline. Both fit a double exactly.
local function rank(priority, deadline)
  local bounded = math.max(-100, math.min(100, tonumber(priority)))
  return whole((100 - bounded) * 1e13 + tonumber(deadline))
end

-- How often a request has been tried: an attempt of a worker, and each scheduler that its ticket has outlived.
local function tries(attempt, lapses)
  return tonumber(attempt) + tonumber(lapses or 0)
end

-- Wake one idle worker of a node: it blocks on the bell, because it cannot block on three queues and move from them.
local function ring(node)
  local bell = prefix .. 'bell:' .. node
  redis.call('LPUSH', bell, '1')
  redis.call('LTRIM', bell, 0, 0)
  keep(bell)
end

-- Wake one idle scheduler of a model.
local function wake(node, model)
  local token = lane_key('wake', node, model)
  redis.call('LPUSH', token, '1')
  redis.call('LTRIM', token, 0, 0)
  keep(token)
end

-- Put a message on a queue of a node: 'LEFT' to be the last one, 'RIGHT' the next.
local function push(node, lane, message, to)
  local queue = prefix .. 'mm.' .. node .. '.' .. lane
  redis.call(to == 'LEFT' and 'LPUSH' or 'RPUSH', queue, message)
  keep(queue)
end

-- A queued request takes its place in line.
local function stand_in_line(node, lane, rid, now)
  local line = lane_key('line', node, lane)
  redis.call('ZADD', line, whole(now), rid)
  keep(line)
end

local function park(node, model, rid, priority, deadline)
  local parked = lane_key('parked', node, model)
  redis.call('ZADD', parked, rank(priority, deadline), rid)
  keep(parked)
  wake(node, model)
end

-- Whether a queued request's message is in no list: what its worker has in hand is in a list, too, also when it has died.
-- The record has the very bytes, from when they are queued until somebody begins.
local function is_lost(record)
  local f = redis.call('HMGET', record, 'state', 'node', 'lane', 'message')
  if f[1] ~= 'queued' then
    return false
  end
  local queue = prefix .. 'mm.' .. f[2] .. '.' .. f[3]
  if not f[4] then
    return redis.call('LLEN', queue) == 0 -- queued by an earlier release: only an empty queue is sure to lack it
  end
  if redis.call('LPOS', queue, f[4], 'RANK', -1) then
    return false
  end
  for _, life in ipairs(redis.call('SMEMBERS', prefix .. 'takers:' .. f[2])) do
    if redis.call('LPOS', prefix .. 'taken:' .. f[2] .. ':' .. life .. ':' .. f[3], f[4]) then
      return false
    end
  end
  return true
end

-- A node's live requests, by the time when its janitor should look at them.
local function watch(node, model, rid, at)
  local watched = lane_key('watch', node, model)
  redis.call('ZADD', watched, whole(at), rid)
  keep(watched)
end

local function unwatch(node, model, rid)
  redis.call('ZREM', lane_key('watch', node, model), rid)
end

-- Whether a request that is watched is still a live one of that node. What is not is watched no longer.
local function is_still_there(node, model, rid)
  local f = redis.call('HMGET', prefix .. 'r:' .. rid, 'state', 'node', 'model')
  if f[1] and not ENDS[f[1]] and f[2] == node and f[3] == model then
    return true, f[1]
  end
  unwatch(node, model, rid)
  return false
end

local LOG = '*' -- stands in a record where its events are kept for whoever asks, not sent to one API process

-- An event for the caller that waits. Its stream is not created here: when its API process is gone, so is the caller.
local function tell(reply, rid, ...)
  if reply == LOG then
    redis.call('XADD', prefix .. 'log:' .. rid, 'MAXLEN', '~', '10000', '*', ...)
  elseif reply and reply ~= '' then
    redis.call('XADD', prefix .. 'out:' .. reply, 'NOMKSTREAM', 'MAXLEN', '~', '100000', '*', 'rid', rid, ...)
  end
end

-- A move, for those who follow a request. A caller that waits for its answer is not told.
local function tell_state(reply, rid, state, attempt)
  if reply == LOG then
    tell(reply, rid, 'event', 'state', 'state', state, 'attempt', attempt)
  end
end

-- What a tenant has asked for lately: live, or ended and not forgotten yet.
local function forget_old(tenant, now, retention_ms)
  local asked, ended = prefix .. 'asked:' .. tenant, prefix .. 'ended:' .. tenant
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', ended, '-inf', whole(now - retention_ms), 'LIMIT', 0, 100)) do
    redis.call('ZREM', asked, old)
    redis.call('ZREM', ended, old)
  end
end

-- Write the one end of a request. Whoever calls has checked that there is none yet and that the fence is current.
-- A block that was parked and never claimed is handed to the node's janitor.
local function finish(record, rid, state, retention_ms, problem, result)
  local f = redis.call('HMGET', record, 'state', 'node', 'model', 'reply', 'ticket', 'token', 'tenant', 'size', 'lane')
  local tenant, now = f[7], now_ms()
  if f[1] == 'parked' and f[5] then
    redis.call('LPUSH', prefix .. 'purge:' .. f[2], f[5])
    keep(prefix .. 'purge:' .. f[2])
  elseif f[1] == 'queued' then
    redis.call('ZREM', lane_key('line', f[2], f[9]), rid)
  end
  local live = redis.call('HINCRBY', prefix .. 'tenant:' .. tenant, 'live', -1)
  redis.call('HINCRBY', prefix .. 'tenant:' .. tenant, 'bytes', whole(0 - tonumber(f[8])))
  redis.call('ZADD', prefix .. 'ended:' .. tenant, whole(now), rid)
  forget_old(tenant, now, tonumber(retention_ms))
  redis.call('ZREM', prefix .. 'due', rid)
  unwatch(f[2], f[3], rid)
  redis.call('ZREM', lane_key('parked', f[2], f[3]), rid)
  redis.call('ZREM', lane_key('leases', f[2], f[3]), rid)
  redis.call('HSET', record, 'state', state, 't_end', whole(now), 'problem', problem, 'result', result)
  redis.call('HDEL', record, 'body', 'ticket', 'message')
  redis.call('PEXPIRE', record, retention_ms)
  if live == 0 then
    -- Together: what is still asked about would otherwise never be found to have ended.
    redis.call('PEXPIRE', prefix .. 'asked:' .. tenant, retention_ms)
    redis.call('PEXPIRE', prefix .. 'ended:' .. tenant, retention_ms)
  end
  tell(f[4], rid, 'event', 'end', 'token', f[6], 'state', state, 'problem', problem, 'result', result)
  if f[4] == LOG then
    redis.call('PEXPIRE', prefix .. 'log:' .. rid, retention_ms)
  end
end

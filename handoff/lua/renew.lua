-- A scheduler keeps the leases of what it runs, and learns what it no longer holds.
-- KEYS[1]: leases. ARGV: prefix, scheduler, lease ms, then rid, claim, rid, claim, …
-- Returns the request ids that are no longer the scheduler's: cancelled, expired, lapsed.
local until_ms = whole(now_ms() + tonumber(ARGV[3]))
local lost = {}
for i = 4, #ARGV, 2 do
  local f = redis.call('HMGET', prefix .. 'r:' .. ARGV[i], 'state', 'claim')
  if f[1] == 'admitted' and f[2] == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], until_ms, ARGV[i])
    keep(KEYS[1])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost

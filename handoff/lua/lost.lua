-- Whether a queued request's message is in no list: neither on its queue nor in any worker's hand.
-- ARGV: prefix, rid. Returns 1 or 0.
return is_lost(KEYS[1]) and 1 or 0

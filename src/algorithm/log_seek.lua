-- Finds an entry in the list of a log. log.lua says `require('log_seek')` where it needs it.
--
-- Returns  a function that finds the first entry, from index `from` of the list on, with at least
--          this slot and this total. It returns the total before the entry, its slot, its total,
--          and how many entries of the list there are up to it. If no entry of the list is one, it
--          is the last entry, which is in the state.
return function(list, from, before, shift, last_slot, last_total, least_slot, least_total)
  local last = (last_slot - (2 ^ 53 - shift)) % 2 ^ 53
  local low, high, probe, slot, total = from, 2 ^ 31, from, nil, nil
  while low < high do
    local entry = redis.call('LINDEX', list, probe)
    local its_slot, its_total = 0, 0
    if entry then
      local bits = 48
      if #entry == 14 then
        bits, its_slot, its_total = 53, struct.unpack('<I7I7', entry)
      elseif #entry == 9 then
        its_slot, its_total = struct.unpack('<I6I3', entry)
      elseif #entry == 10 then
        its_slot, its_total = struct.unpack('<I6I4', entry)
        its_total = last_total - (last_total - its_total) % 2 ^ 32
      else
        error('UNREADABLE entry')
      end
      its_slot = math.max(last_slot - (last - its_slot) % 2 ^ bits, 0)
    end
    -- Totals grow up to the last one. In a list that no script wrote they mostly do not.
    if entry and (its_total < before or its_total > last_total) then
      error('UNREADABLE entry')
    end
    if not entry then
      high, slot = probe, nil
    elseif its_slot >= least_slot and its_total >= least_total then
      high, slot, total = probe, its_slot, its_total
    else
      low, before = probe + 1, its_total
    end
    -- Steps grow until one goes too far: the entry is mostly near the start.
    probe = math.floor((low + high) / 2)
    if high == 2 ^ 31 then probe = math.min(2 * low - from, high - 1) end
  end
  if slot then return before, slot, total, low + 1 end
  return before, last_slot, last_total, low
end

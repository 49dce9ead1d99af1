--- library
-- What was admitted, oldest first, is entries of a slot and all units ever admitted up to its end. The first entry
-- and the last are numbers of the state; those between them are in a list, as the low 6 bytes of the slot and the total
-- in 3, as long as that is enough; then in its low 4 bytes. Those, and the slot's, are enough to tell them from the
-- last's (or 7 each, where spans or units are so large that they are not).
-- Here: the first of the list, from `index` on, of at least this slot and total, and the total before it.
local function seek(list, index, before, last, last_total, least_slot, least_total)
  local low, high, probe, slot, total = index, 2 ^ 31, index, nil, nil
  while low < high do
    local entry = redis.call('LINDEX', list, probe)
    local its_slot, its_total = -1, 0
    if entry and #entry == 14 then
      its_slot, its_total = struct.unpack('<I7I7', entry)
    elseif entry then
      if #entry == 9 then
        its_slot, its_total = struct.unpack('<I6I3', entry)
      elseif #entry == 10 then
        its_slot, its_total = struct.unpack('<I6I4', entry)
        its_total = last_total - (last_total - its_total) % 2 ^ 32
      else
        error('UNREADABLE entry')
      end
      its_slot = last - (last - its_slot) % 2 ^ 48
    end
    -- Totals grow, up to the last's; those of a stranger mostly don't.
    if entry and (its_total < before or its_total > last_total) then error('UNREADABLE entry') end
    if not entry then
      high, slot = probe, nil
    elseif its_slot >= least_slot and its_total >= least_total then
      high, slot, total = probe, its_slot, its_total
    else
      low, before = probe + 1, its_total
    end
    probe = math.floor((low + high) / 2)
    if high == 2 ^ 31 then probe = math.min(2 * low - index, high - 1) end
  end
  return low, before, slot, total
end
--- judge
-- Slots in the list are those that were before the clock stepped back: later by the shift.
if m.shift ~= 0 and not (m.shift > 0 and m.shift < 2 ^ 53 and m.shift % 1 == 0) then error('UNREADABLE state') end
m.slot = now - now % m.slot_micros
if m.last > m.slot then
  m.ahead = m.last - m.slot
  m.slot = m.last
end
if m.first + m.span_micros <= m.slot and m.total > m.forgotten then
  m.old_forgotten, m.old_first, m.old_first_total = m.forgotten, m.first, m.first_total
  if m.last + m.span_micros <= m.slot then
    m.forgotten, m.dropped = m.total, 2 ^ 31
  else
    local index, before, slot, total = seek(
      m.list, 0, m.first_total, m.last + m.shift, m.total, m.slot - m.span_micros + m.shift + 1, 0)
    m.forgotten, m.dropped, m.first, m.first_total = before, index, m.last, m.total
    if slot then
      m.first, m.first_total, m.dropped = math.max(slot - m.shift, 0), total, index + 1
    end
  end
end
if m.ahead and m.ahead > m.span_micros then
  m.shift = m.shift + m.ahead
  m.first = math.max(m.first - m.ahead, 0)
  m.last, m.slot = m.last - m.ahead, m.last - m.ahead
  mends, m.old_first = true, nil
end
m.counted = m.total - m.forgotten
m.fits = (m.counted + cost <= m.units and m.total + cost < 2 ^ 53) or cost == 0
--- charge
m.old_first = nil
if m.counted == 0 then
  -- What is left of a list whose state was evicted is another log's.
  if not state then call(relative and 'PEXPIRE' or 'PEXPIREAT', m.list, '0') end
  if m.shift > 0 then m.shift, moves = 0, true end
  m.first, m.last = m.slot, m.slot
  m.first_total, m.forgotten, m.total = cost, 0, 0
elseif m.last ~= m.slot then
  if m.first_total < m.total then
    if m.units >= 2 ^ 31 or m.span_micros >= 2 ^ 47 then
      m.entry = struct.pack('<I7I7', m.last + m.shift, m.total)
    elseif m.total < 2 ^ 24 then
      m.entry = struct.pack('<I6I3', (m.last + m.shift) % 2 ^ 48, m.total)
    else
      m.entry = struct.pack('<I6I4', (m.last + m.shift) % 2 ^ 48, m.total % 2 ^ 32)
    end
    if call('RPUSHX', m.list, m.entry) == 0 then
      -- A list must not be left without expiry: whether it may get one is seen before there is one.
      call(relative and 'PEXPIRE' or 'PEXPIREAT', m.list, '0')
      call('RPUSH', m.list, m.entry)
      moves = true
    end
  end
  m.last = m.slot
elseif m.first_total == m.total then
  m.first_total = m.total + cost
end
m.total = m.total + cost
--- refund
m.old_first = nil
m.forgotten = math.min(m.forgotten + cost, m.total)
if m.first_total <= m.forgotten then
  local index, _, slot, total = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.forgotten + 1)
  m.dropped, m.first, m.first_total = index, m.last, m.total
  if slot then
    m.first, m.first_total, m.dropped = math.max(slot - m.shift, 0), total, index + 1
  end
end
--- forget
if m.old_first then
  -- Only another member's state is mended: what is over is kept, as a clock that steps back may count it again.
  m.old_forgotten, m.forgotten = m.forgotten, m.old_forgotten
  m.old_first, m.first = m.first, m.old_first
  m.old_first_total, m.first_total = m.first_total, m.old_first_total
  m.old_dropped, m.dropped = m.dropped, nil
end
if m.dropped and m.dropped > 0 then
  call('LTRIM', m.list, m.dropped, '-1')
  m.dropped = nil
end
m.over = m.last
if m.total > m.forgotten then
  m.over = m.last + m.span_micros
  m.beyond = m.over % m.slot_micros
  if m.beyond > 0 then m.over = m.over - m.beyond + m.slot_micros end
end
--- tell
if m.old_dropped then
  m.forgotten, m.first, m.first_total, m.dropped = m.old_forgotten, m.old_first, m.old_first_total, m.old_dropped
end
m.more_after, m.all_after, m.cost_after = 0, 0, 0
if m.counted > 0 then
  m.more_after, m.all_after = m.first, m.last
  -- Until so many units are over there is no room for one more, or for the cost.
  if m.first_total < m.total + 1 - m.units then
    local _, _, slot = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.total + 1 - m.units)
    m.more_after = slot and math.max(slot - m.shift, 0) or m.last
  end
  if not m.fits and cost <= m.units then
    m.cost_after = m.first
    if m.first_total < m.total + cost - m.units then
      local _, _, slot = seek(m.list, m.dropped or 0, 0, m.last + m.shift, m.total, 0, m.total + cost - m.units)
      m.cost_after = slot and math.max(slot - m.shift, 0) or m.last
    end
  end
end

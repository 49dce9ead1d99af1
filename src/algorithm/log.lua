--- library
-- What was admitted, oldest first, as entries of 14 bytes: a slot, and all units ever admitted up to its end.
-- The oldest are in `front`, the newest in `back`, each at most a block of 16 entries; the blocks between them
-- are in a ring under a key of its own, of which a decision rarely reads or writes more than one.
local function scan(text, before, least_slot, least_total)
  for at = 1, #text, 14 do
    local slot, total = struct.unpack('<I7I7', text, at)
    if slot >= least_slot and total >= least_total then return at, before, slot, total end
    before = total
  end
  return nil, before
end
-- Leaves out the entries before the first of at least this slot and total. Blocks that are gone were over.
local function leave_out(front, back, ring, ring_first, blocks, capacity, forgotten, flushed, least_slot, least_total)
  local at, before, slot, total = scan(front, forgotten, least_slot, least_total)
  if at then return string.sub(front, at), back, ring_first, blocks, before, flushed, slot, total end
  local function block_at(index)
    local start = (ring_first + index) % capacity * 224
    return redis.call('GETRANGE', ring, start, start + 223)
  end
  local low, high, middle = 0, blocks, 0
  while low < high do
    local block = block_at(middle)
    if #block == 224 then
      local last_slot, last_total = struct.unpack('<I7I7', block, 211)
      if last_slot >= least_slot and last_total >= least_total then high = middle else low = middle + 1 end
    else
      low = middle + 1
    end
    middle = math.floor((low + high) / 2)
  end
  if low < blocks then
    if low > 0 then
      local _
      _, before = struct.unpack('<I7I7', block_at(low - 1), 211)
    end
    local block = block_at(low)
    at, before, slot, total = scan(block, before, least_slot, least_total)
    return string.sub(block, at), back, (ring_first + low + 1) % capacity, blocks - low - 1, before, flushed, slot, total
  end
  at, before, slot, total = scan(back, flushed, least_slot, least_total)
  if at then return '', string.sub(back, at), 0, 0, before, before, slot, total end
  return '', '', 0, 0, before, before, 0, 0
end
--- judge
m.slot = now - now % m.slot_micros
m.now_slot = m.slot
if m.stamp > m.slot then m.slot = m.stamp end
m.least_slot = m.slot - m.span_micros + m.shift + 1
if m.slot < m.span_micros then m.least_slot = 0 end
if m.first < m.least_slot and m.total > m.forgotten then
  m.front, m.back, m.ring_first, m.blocks, m.forgotten, m.flushed, m.first, m.first_total = leave_out(
    m.front, m.back, m.ring, m.ring_first, m.blocks, m.capacity, m.forgotten, m.flushed, m.least_slot, 0)
end
if m.stamp > m.now_slot + m.span_micros then
  m.shift = m.shift + m.stamp - m.now_slot
  m.stamp, m.slot = m.now_slot, m.now_slot
  mends = true
end
m.counted = m.total - m.forgotten
m.fits = cost == 0 or (m.counted + cost <= m.units and m.total + cost < 2 ^ 53)
--- charge
if m.counted == 0 then
  m.total, m.forgotten, m.flushed, m.last = 0, 0, 0, -1
end
if m.last >= 0 and math.max(m.last - m.shift, 0) == m.slot then
  if m.first_total == m.total then m.first_total = m.total + cost end
  m.back = string.sub(m.back, 1, -15)
else
  if #m.back == 224 then
    if m.front == '' then
      m.front = m.back
    else
      m.ring_over = math.max(m.last - m.shift, 0) + m.span_micros
      m.ring_over = math.ceil(m.ring_over / m.slot_micros) * m.slot_micros
      m.ring_expires = string.format('%d', math.max(math.ceil(m.ring_over / 1000) - origin, shortest))
      if m.blocks == m.capacity then
        m.whole = ''
        if m.blocks > 0 then m.whole = redis.call('GET', m.ring) or '' end
        m.whole = m.whole .. string.rep('\0', m.capacity * 224 - #m.whole)
        m.whole = string.sub(m.whole, m.ring_first * 224 + 1) .. string.sub(m.whole, 1, m.ring_first * 224)
        m.capacity = math.min(math.max(4, 2 * m.capacity), math.ceil(m.units / 16))
        m.capacity = math.max(m.capacity, m.blocks + 1)
        m.whole = m.whole .. m.back .. string.rep('\0', (m.capacity - m.blocks - 1) * 224)
        m.ring_first = 0
        redis.call('SET', m.ring, m.whole, 'PX' .. at, m.ring_expires)
      else
        redis.call('SETRANGE', m.ring, (m.ring_first + m.blocks) % m.capacity * 224, m.back)
        redis.call('PEXPIRE' .. at, m.ring, m.ring_expires)
      end
      m.blocks = m.blocks + 1
    end
    m.back, m.flushed = '', m.total
  end
  m.last = m.slot + m.shift
  if m.counted == 0 then m.first, m.first_total = m.last, cost end
end
m.total = m.total + cost
m.back = m.back .. struct.pack('<I7I7', m.last, m.total)
m.stamp = m.slot
m.counted = m.counted + cost
--- refund
m.forgotten = math.min(m.forgotten + cost, m.total)
if m.first_total <= m.forgotten then
  m.refunded = m.forgotten
  m.front, m.back, m.ring_first, m.blocks, m.forgotten, m.flushed, m.first, m.first_total = leave_out(
    m.front, m.back, m.ring, m.ring_first, m.blocks, m.capacity, m.forgotten, m.flushed, 0, m.refunded + 1)
  m.forgotten = math.max(m.forgotten, m.refunded)
end
if m.front == '' then m.flushed = m.forgotten end
--- forget
m.over = m.stamp
if m.total > m.forgotten then
  m.over = math.max(m.last - m.shift, 0) + m.span_micros
  m.over = math.ceil(m.over / m.slot_micros) * m.slot_micros
end
--- tell
m.more_after, m.all_after, m.cost_after = 0, 0, 0
if m.counted > 0 then
  m.more_after = math.max(m.first - m.shift, 0)
  m.all_after = math.max(m.last - m.shift, 0)
  -- Until so many units are over there is no room for one more, or for the cost.
  m.missing = m.counted + 1 - m.units
  if m.missing > 1 and m.first_total - m.forgotten < m.missing then
    local _, _, _, _, _, _, slot = leave_out(
      m.front, m.back, m.ring, m.ring_first, m.blocks, m.capacity, m.forgotten, m.flushed, 0, m.forgotten + m.missing)
    m.more_after = math.max(slot - m.shift, 0)
  end
  if not m.fits and cost <= m.units then
    m.cost_after, m.missing = math.max(m.first - m.shift, 0), m.counted + cost - m.units
    if m.first_total - m.forgotten < m.missing then
      local _, _, _, _, _, _, slot = leave_out(
        m.front, m.back, m.ring, m.ring_first, m.blocks, m.capacity, m.forgotten, m.flushed, 0, m.forgotten + m.missing)
      m.cost_after = math.max(slot - m.shift, 0)
    end
  end
end

-- A bucket of debt: the rule of TokenBucket, LeakyBucket and Gcra. `debt_bucket.rs` says the same
-- in Rust.
--
-- Every cost adds to a debt, which is paid off at a steady rate. A cost has room if the debt with
-- it stays within the capacity. The debt is counted in parts of a unit, so that each tick pays a
-- whole number of them.
--
-- `rule('another plan')` stands for the last part. It runs if there is no state yet, and if the
-- last cost was admitted under another plan.
--
-- Parameters  capacity_parts     the largest debt
--             parts_per_unit     what a cost of 1 adds
--             parts_per_tick     what a tick pays off
--             tick_micros        how long a tick is: mostly a microsecond
--             own_id             the id of the caller's plan
-- State       debt               in parts
--             debt_tick          the tick at which it was counted
-- Private     id                 that of the only plan; 0 if there are several
-- Tail        of the only plan   capacity_parts, parts_per_unit, parts_per_tick; then, in 4 bytes
--                                each, tick_micros, and the checksum of its id and these
--             of several         the latest's id, capacity_parts, parts_per_unit, parts_per_tick,
--                                tick_micros; then of the other the same (all 0 if there is none),
--                                debt, debt_tick, expires_at; then units, stamp, expires_at and
--                                span of further plans (0 if there are none); then the checksum of
--                                the state and all of these
-- Reply       debt_now           what is owed now
--             tick_now           the tick of now, or debt_tick if that is later
-- Withdraw    admitted_tick      the state that the admission left
--             admitted_debt
--- judge
m.tick_now = now
if m.tick_micros > 1 then m.tick_now = math.floor(now / m.tick_micros) end
if m.id ~= m.own_id then
  rule('another plan')
elseif m.debt >= 2 ^ 53 then
  -- A debit may owe more than the capacity, but no more than is exact.
  error('UNREADABLE state')
end
m.debt_now = m.debt + (m.debt_tick - m.tick_now) * m.parts_per_tick
if m.debt_tick > m.tick_now then
  -- The clock has stepped back: nothing is paid off meanwhile. A debt too far ahead is moved to
  -- now.
  m.debt_now = m.debt
  local span = m.parts_per_tick > 0 and math.ceil(m.capacity_parts / m.parts_per_tick) or 0
  if not m.plans and m.debt_tick > m.tick_now + span then
    m.debt_tick, repaired = m.tick_now, true
  end
  m.tick_now = m.debt_tick
elseif m.debt_now < 0 then
  m.debt_now = 0
end
m.debt_after = m.debt_now + cost * m.parts_per_unit
m.fits = m.debt_after <= m.capacity_parts or cost == 0
--- debit
if m.debt_after >= 2 ^ 53 then m.debt_after = 2 ^ 53 - 1 end
-- What is never paid back is not owed.
if m.parts_per_tick == 0 then m.debt_after = m.debt_now end
--- charge
m.debt, m.debt_tick = m.debt_after, m.tick_now
if m.plans then
  local plans = m.plans
  local other = plans.choose_other()
  if other then
    -- What another plan admits fills the bucket at most.
    local debt, tick_now = plans.debt_now(other)
    other.debt = math.min(debt + cost * other.per_unit, math.max(other.capacity, debt))
    other.debt_tick = tick_now
  end
  plans.latest = {
    id = m.own_id, capacity = m.capacity_parts, per_unit = m.parts_per_unit,
    per_tick = m.parts_per_tick, tick_micros = m.tick_micros,
    debt = m.debt, debt_tick = m.debt_tick,
  }
  dirty = true
  if plans.are_several() then
    m.id, m.tail = 0, plans.pack()
  else
    m.id, m.tail = m.own_id, plans.pack_only()
  end
end
--- beside
m.debt_now = m.debt_now + held * m.parts_per_unit
if m.debt_now >= 2 ^ 53 then m.debt_now = 2 ^ 53 - 1 end
--- refund
if m.plans then
  local plan = m.plans.own or m.plans.latest
  local debt, tick_now = m.plans.debt_now(plan)
  plan.debt, plan.debt_tick = math.max(debt - cost * plan.per_unit, 0), tick_now
  if m.id == 0 then m.tail = m.plans.pack() end
else
  m.debt, m.debt_tick = math.max(m.debt_now - cost * m.parts_per_unit, 0), m.tick_now
end
--- withdraw
-- Only the last in the queue can leave it: then the debt is still what its admission left.
if (not m.plans or m.plans.own == m.plans.latest)
  and m.debt + (m.debt_tick - m.admitted_tick) * m.parts_per_tick == m.admitted_debt then
  m.debt, m.debt_tick = math.max(m.debt_now - cost * m.parts_per_unit, 0), m.tick_now
  if m.plans then m.plans.latest.debt, m.plans.latest.debt_tick = m.debt, m.debt_tick end
  if m.id == 0 then m.tail = m.plans.pack() end
end
--- expire
if m.plans then
  m.debt, m.debt_tick = m.plans.latest.debt, m.plans.latest.debt_tick
  m.expires_at = m.plans.expire_at()
elseif m.parts_per_tick == 0 then
  m.expires_at = m.debt_tick * m.tick_micros
else
  -- One tick more: the sum may lose the fraction of a tick.
  m.expires_at = m.debt_tick + m.debt / m.parts_per_tick + 1
  if m.tick_micros > 1 then
    m.expires_at = math.min(math.ceil(m.expires_at - 1) * m.tick_micros, 2 ^ 54 - 2)
  end
end
--- another plan
local checksum = require('checksum')
local pack_only = function()
  local capacity, per_unit, per_tick = m.capacity_parts, m.parts_per_unit, m.parts_per_tick
  return struct.pack('<dddI4I4', capacity, per_unit, per_tick, m.tick_micros,
    checksum(m.own_id, capacity, per_unit, per_tick, m.tick_micros))
end
if not state then
  m.id, m.tail, dirty = m.own_id, pack_only(), true
else
  -- The last cost was admitted under another plan, or there are several.
  local plans = require('plans')
  plans.pack_only = pack_only
  local plan = function(...)
    plans.check(...)
    local id, capacity, per_unit, per_tick, tick_micros, debt, debt_tick, expires_at = ...
    if id == 0 or per_unit == 0 or tick_micros == 0 then error('UNREADABLE state') end
    return {
      id = id, capacity = capacity, per_unit = per_unit, per_tick = per_tick,
      tick_micros = tick_micros, debt = debt, debt_tick = debt_tick, expires_at = expires_at,
    }
  end
  local tail = string.sub(state, m.tail_at, m.tail_end)
  if m.id ~= 0 then
    local capacity, per_unit, per_tick, tick_micros, sum = struct.unpack('<dddI4I4', tail)
    if sum ~= checksum(m.id, capacity, per_unit, per_tick, tick_micros) then
      error('UNREADABLE state')
    end
    plans.latest =
      plan(m.id, capacity, per_unit, per_tick, tick_micros, m.debt, m.debt_tick, 0)
  else
    if #tail ~= 144 then error('UNREADABLE state') end
    local n = { struct.unpack('<dddddddddddddddddd', tail) }
    if n[18] ~= checksum(m.debt, m.debt_tick, unpack(n, 1, 17)) then
      error('UNREADABLE state')
    end
    plans.latest = plan(n[1], n[2], n[3], n[4], n[5], m.debt, m.debt_tick, 0)
    if n[6] ~= 0 then plans.other = plan(unpack(n, 6, 13)) end
    plans.read_further(n[14], n[15], n[16], n[17])
  end
  plans.find(function(plan) return plan.id == m.own_id end)
  plans.units_of = function(plan)
    local part = plan.debt % plan.per_unit
    return (plan.debt - part) / plan.per_unit + (part > 0 and 1 or 0)
  end
  plans.stamp_of = function(plan) return plan.debt_tick * plan.tick_micros end
  plans.move_to_now = function(plan) plan.debt_tick = math.floor(now / plan.tick_micros) end
  plans.expiry_of = function(plan)
    local ticks = plan.per_tick > 0 and math.ceil(plan.debt / plan.per_tick) or 0
    -- A debit may owe more than can ever be paid.
    return math.min((plan.debt_tick + ticks) * plan.tick_micros, 2 ^ 54 - 2)
  end
  plans.debt_now = function(plan)
    local tick_now = math.max(math.floor(now / plan.tick_micros), plan.debt_tick)
    return math.max(plan.debt + (plan.debt_tick - tick_now) * plan.per_tick, 0), tick_now
  end
  plans.pack = function()
    local latest, other = plans.latest, plans.other
    other = other or {
      id = 0, capacity = 0, per_unit = 0, per_tick = 0, tick_micros = 0,
      debt = 0, debt_tick = 0, expires_at = 0,
    }
    local n = {
      latest.id, latest.capacity, latest.per_unit, latest.per_tick, latest.tick_micros,
      other.id, other.capacity, other.per_unit, other.per_tick, other.tick_micros,
      other.debt, other.debt_tick, other.expires_at,
      plans.further_numbers()
    }
    n[18] = checksum(latest.debt, latest.debt_tick, unpack(n))
    return struct.pack('<dddddddddddddddddd', unpack(n))
  end
  local span = m.parts_per_tick > 0 and math.ceil(m.capacity_parts / m.parts_per_tick) or 0
  if math.floor((now + plans.ahead()) / m.tick_micros) > m.tick_now + span then
    plans.move_back()
    repaired = true
    if m.id == 0 then m.tail = plans.pack() end
  end
  if plans.own then
    m.debt, m.debt_tick = plans.own.debt, plans.own.debt_tick
  elseif plans.further then
    -- It may be one of the further plans: the same units, owed at the latest stamp, or so
    -- early that they are paid off when they expire.
    local further = plans.further
    m.debt = math.min(further.units * m.parts_per_unit, m.capacity_parts)
    local ticks = m.parts_per_tick > 0 and math.floor(m.debt / m.parts_per_tick) or 0
    m.debt_tick = math.min(math.ceil(further.stamp / m.tick_micros),
      math.max(math.ceil(further.expires_at / m.tick_micros) - ticks, 0))
  else
    -- It takes over the debt of the latest plan, in parts of its own.
    local divisor, rest = m.parts_per_unit, plans.latest.per_unit
    while rest > 0 do
      divisor, rest = rest, math.fmod(divisor, rest)
    end
    m.debt = math.ceil(
      plans.latest.debt * (m.parts_per_unit / divisor) / (plans.latest.per_unit / divisor)
    )
    m.debt = math.min(m.debt, 2 ^ 53 - 1)
    m.debt_tick =
      math.floor(plans.latest.debt_tick * plans.latest.tick_micros / m.tick_micros)
  end
  m.plans = plans
end

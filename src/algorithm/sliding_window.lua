-- Two windows, the previous one weighted by how much of it the last period still covers: the rule
-- of SlidingWindow. `sliding_window.rs` says the same in Rust.
--
-- A cost has room if the units of the running window, and of those of the window before it the part
-- that a period back from now still covers, stay within the quota with it.
--
-- `rule('another plan')` stands for the last part. It runs if there is no state yet, and if the
-- last cost was admitted under another plan.
--
-- Parameters  units               the quota of a period
--             period              in microseconds; also the id of the caller's plan
--             tick_micros         how long a tick is: parts of a period are counted in ticks
--             ticks               of a period
-- State       stamp               the microsecond at which it was counted, which tells the window
--             previous            the units of the window before that
--             current             the units of that window
-- Private     id                  that of the only plan; 0 if there are several
-- Tail        of the only plan    nothing
--             of several          the latest's id; then of the other id (0 if there is none),
--                                 stamp, previous, current, expires_at; then units, stamp,
--                                 expires_at and span of further plans (0 if there are none); then
--                                 the checksum of the state and all of these
-- Reply       stamp_now           now, or stamp if that is later
--             previous_now        the units of the window before the running one
--             current_now         the units of the running one
--- judge
if m.id ~= m.period then
  rule('another plan')
elseif m.stamp > now + 2 * m.period then
  -- The clock has stepped back, and now is elsewhere in its window: the whole estimate becomes the
  -- count of the running one.
  local covered = m.ticks - math.floor(m.stamp % m.period / m.tick_micros)
  m.current = m.current + math.ceil(m.previous * covered / m.ticks)
  m.stamp, m.previous = now, 0
  repaired = true
end
m.stamp_now = now
if m.stamp > now then m.stamp_now = m.stamp end
m.start = m.stamp_now - m.stamp_now % m.period
m.previous_now, m.current_now = m.previous, m.current
if m.stamp < m.start then
  m.previous_now, m.current_now = m.current, 0
  if m.stamp + m.period < m.start then m.previous_now = 0 end
end
m.covered = m.ticks - math.floor((m.stamp_now - m.start) / m.tick_micros)
m.fits = m.previous_now * m.covered <= (m.units - m.current_now - cost) * m.ticks or cost == 0
--- debit
m.current_now = math.min(m.current_now, 2 ^ 53 - 2 ^ 32 - cost)
--- charge
m.stamp, m.previous, m.current = m.stamp_now, m.previous_now, m.current_now + cost
if m.plans then
  local plans = m.plans
  local other = plans.choose_other()
  if other then
    other.stamp, other.previous, other.current = plans.running(other)
    other.current = math.min(other.current + cost, 2 ^ 53 - 2 ^ 32)
  end
  plans.latest = {
    id = m.period, period = m.period,
    stamp = m.stamp, previous = m.previous, current = m.current,
  }
  dirty = true
  if plans.are_several() then
    m.id, m.tail = 0, plans.pack()
  else
    m.id, m.tail = m.period, ''
  end
end
--- beside
m.current_now = math.min(m.current_now + held, 2 ^ 53 - 2 ^ 32)
--- refund
-- Units are given back to the running window first, then to the one before it.
if m.plans then
  local plan = m.plans.own or m.plans.latest
  plan.stamp, plan.previous, plan.current = m.plans.running(plan)
  plan.previous = math.max(plan.previous + math.min(plan.current - cost, 0), 0)
  plan.current = math.max(plan.current - cost, 0)
  if m.id == 0 then m.tail = m.plans.pack() end
else
  m.stamp = m.stamp_now
  m.previous = math.max(m.previous_now + math.min(m.current_now - cost, 0), 0)
  m.current = math.max(m.current_now - cost, 0)
end
--- expire
if m.plans then
  m.stamp, m.previous, m.current =
    m.plans.latest.stamp, m.plans.latest.previous, m.plans.latest.current
  m.expires_at = m.plans.expire_at()
else
  m.expires_at = m.stamp - m.stamp % m.period + m.period
  if m.current > 0 then m.expires_at = m.expires_at + m.period end
end
--- another plan
if not state then
  m.id, m.tail, dirty = m.period, '', true
else
  -- The last cost was admitted under another plan, or there are several.
  local plans, checksum = require('plans'), require('checksum')
  local plan = function(id, stamp, previous, current, expires_at)
    plans.check(id, stamp, previous, current, expires_at)
    if id == 0 then error('UNREADABLE state') end
    return {
      id = id, period = id, stamp = stamp, previous = previous, current = current,
      expires_at = expires_at,
    }
  end
  if m.id ~= 0 then
    plans.latest = plan(m.id, m.stamp, m.previous, m.current, 0)
  else
    local tail = string.sub(state, m.tail_at, m.tail_end)
    if #tail ~= 88 then error('UNREADABLE state') end
    local n = { struct.unpack('<ddddddddddd', tail) }
    if n[11] ~= checksum(m.stamp, m.previous, m.current, unpack(n, 1, 10)) then
      error('UNREADABLE state')
    end
    plans.latest = plan(n[1], m.stamp, m.previous, m.current, 0)
    if n[2] ~= 0 then plans.other = plan(n[2], n[3], n[4], n[5], n[6]) end
    plans.read_further(n[7], n[8], n[9], n[10])
  end
  plans.find(function(plan) return plan.id == m.period end)
  plans.units_of = function(plan)
    return math.min(plan.previous + plan.current, 2 ^ 53 - 2 ^ 32)
  end
  plans.stamp_of = function(plan) return plan.stamp end
  plans.move_to_now = function(plan)
    -- Now is elsewhere in its window: the whole estimate becomes the count of the running one.
    local covered = plan.period - plan.stamp % plan.period
    plan.current =
      math.min(plan.current + math.ceil(plan.previous * covered / plan.period), 2 ^ 53 - 2 ^ 32)
    plan.stamp, plan.previous = now, 0
  end
  plans.expiry_of = function(plan)
    if plan.previous + plan.current == 0 then return plan.stamp end
    return plan.stamp - plan.stamp % plan.period + plan.period * (plan.current > 0 and 2 or 1)
  end
  plans.running = function(plan)
    local stamp = math.max(now, plan.stamp)
    local start = stamp - stamp % plan.period
    if plan.stamp >= start then return stamp, plan.previous, plan.current end
    return stamp, plan.stamp + plan.period >= start and plan.current or 0, 0
  end
  plans.pack = function()
    local latest, other = plans.latest, plans.other
    other = other or { id = 0, stamp = 0, previous = 0, current = 0, expires_at = 0 }
    local n = {
      latest.id, other.id, other.stamp, other.previous, other.current,
      other.expires_at, plans.further_numbers()
    }
    n[11] = checksum(latest.stamp, latest.previous, latest.current, unpack(n))
    return struct.pack('<ddddddddddd', unpack(n))
  end
  if plans.ahead() > 2 * m.period then
    plans.move_back()
    repaired = true
    if m.id == 0 then m.tail = plans.pack() end
  end
  if plans.own then
    m.stamp, m.previous, m.current = plans.own.stamp, plans.own.previous, plans.own.current
  elseif plans.further then
    -- It may be one of the further plans: all units in one window, no earlier than any of theirs.
    local further = plans.further
    local periods = math.max(math.ceil(further.expires_at / m.period) - 2, 0)
    m.stamp = math.min(further.stamp, periods * m.period)
    m.previous, m.current = 0, math.min(further.units, m.units)
  else
    m.stamp, m.previous, m.current =
      plans.latest.stamp, plans.latest.previous, plans.latest.current
  end
  m.plans = plans
end

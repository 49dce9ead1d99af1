-- So many units in each window: the rule of FixedWindow. `fixed_window.rs` says the same in Rust.
--
-- A cost has room if the units that were used in the running window stay within the quota with it.
-- Windows follow one another without a gap from the Unix epoch on; or each opens at the first
-- admission after the last one.
--
-- `rule('another plan')` stands for the last part. It runs if there is no state yet, and if the
-- last cost was admitted under another plan.
--
-- Parameters  units              the quota of a window
--             period             of a window, in microseconds
--             opens_at_first     1 if windows open at the first admission, else 0
-- State       start              of the window that was counted last, in microseconds
--             used               the units that were used in it
-- Private     only_period        the period of the only plan; 0 if there are several
-- Tail        of the only plan   opens_at_first, in a byte
--             of several         the latest's period, opens_at_first (in a byte); then of the other
--                                the same (all 0 if there is none), start, used, expires_at; then
--                                units, stamp, expires_at and span of further plans (0 if there
--                                are none); then the checksum of the state and all of these
-- Reply       running_start      the start of the window that runs now
--             running_used       the units that were used in it
--- judge
if m.only_period ~= m.period or string.byte(state, m.tail_at) ~= m.opens_at_first then
  rule('another plan')
elseif m.start > now + m.period then
  -- The clock has stepped back. The window lasts for a period from now, and an aligned one until
  -- the end of the one that begins next: if it ended sooner, another one would open too early.
  m.start, repaired = now, true
  if m.opens_at_first == 0 then m.start = math.ceil(now / m.period) * m.period end
end
m.running_start, m.running_used = m.start, m.used
if now >= m.start + m.period or (m.used == 0 and m.opens_at_first == 1) then
  m.running_start, m.running_used = now, 0
  if m.start > now then m.running_start = m.start end
  if m.opens_at_first == 0 then
    m.running_start = m.running_start - m.running_start % m.period
  end
end
m.fits = m.running_used + cost <= m.units or cost == 0
--- debit
m.running_used = math.min(m.running_used, 2 ^ 53 - 2 ^ 32 - cost)
--- charge
m.start, m.used = m.running_start, m.running_used + cost
if m.plans then
  local plans = m.plans
  local other = plans.choose_other()
  if not plans.own and m.opens_at_first == 0 then
    -- The window was taken over from another plan, and may have begun at another instant.
    m.start = math.max(now, m.start)
    m.start = m.start - m.start % m.period
  end
  if other then
    local start, used = plans.running(other)
    other.start, other.used = start, math.min(used + cost, 2 ^ 53 - 2 ^ 32)
  end
  plans.latest = {
    period = m.period, opens_at_first = m.opens_at_first, start = m.start, used = m.used,
  }
  dirty = true
  if plans.are_several() then
    m.only_period, m.tail = 0, plans.pack()
  else
    m.only_period, m.tail = m.period, string.char(m.opens_at_first)
  end
end
--- beside
m.running_used = math.min(m.running_used + held, 2 ^ 53 - 2 ^ 32)
--- refund
if m.plans then
  local plan = m.plans.own or m.plans.latest
  local start, used = m.plans.running(plan)
  plan.start, plan.used = start, math.max(used - cost, 0)
  if m.only_period == 0 then m.tail = m.plans.pack() end
else
  m.start, m.used = m.running_start, math.max(m.running_used - cost, 0)
end
--- expire
if m.plans then
  m.start, m.used = m.plans.latest.start, m.plans.latest.used
  m.expires_at = m.plans.expire_at()
else
  m.expires_at = m.start + m.period
end
--- another plan
if not state then
  m.only_period, m.tail, dirty = m.period, string.char(m.opens_at_first), true
else
  -- The last cost was admitted under another plan, or there are several.
  local plans, checksum = require('plans'), require('checksum')
  local plan = function(period, opens_at_first, start, used, expires_at)
    plans.check(period, opens_at_first, start, used, expires_at)
    -- Aligned windows begin at multiples of their period, also where they were moved.
    if period == 0 or opens_at_first > 1 or (opens_at_first == 0 and start % period ~= 0) then
      error('UNREADABLE state')
    end
    return {
      period = period, opens_at_first = opens_at_first, start = start, used = used,
      expires_at = expires_at,
    }
  end
  local tail = string.sub(state, m.tail_at, m.tail_end)
  if m.only_period ~= 0 then
    plans.latest = plan(m.only_period, string.byte(tail), m.start, m.used, 0)
  else
    if #tail ~= 82 then error('UNREADABLE state') end
    local n = { struct.unpack('<dBdBdddddddd', tail) }
    if n[12] ~= checksum(m.start, m.used, unpack(n, 1, 11)) then error('UNREADABLE state') end
    plans.latest = plan(n[1], n[2], m.start, m.used, 0)
    if n[3] ~= 0 then plans.other = plan(n[3], n[4], n[5], n[6], n[7]) end
    plans.read_further(n[8], n[9], n[10], n[11])
  end
  plans.find(function(plan)
    return plan.period == m.period and plan.opens_at_first == m.opens_at_first
  end)
  plans.units_of = function(plan) return plan.used end
  plans.stamp_of = function(plan) return plan.start end
  plans.move_to_now = function(plan)
    plan.start = plan.opens_at_first == 1 and now or math.ceil(now / plan.period) * plan.period
  end
  -- One period longer than the window lasts: `fixed_window.rs` says why.
  plans.expiry_of = function(plan)
    return plan.used > 0 and plan.start + 2 * plan.period or plan.start
  end
  plans.running = function(plan)
    if now < plan.start + plan.period and (plan.used > 0 or plan.opens_at_first == 0) then
      return plan.start, plan.used
    end
    local start = math.max(now, plan.start)
    return plan.opens_at_first == 1 and start or start - start % plan.period, 0
  end
  plans.pack = function()
    local latest, other = plans.latest, plans.other
    other = other or { period = 0, opens_at_first = 0, start = 0, used = 0, expires_at = 0 }
    local n = {
      latest.period, latest.opens_at_first,
      other.period, other.opens_at_first, other.start, other.used, other.expires_at,
      plans.further_numbers()
    }
    n[12] = checksum(latest.start, latest.used, unpack(n))
    return struct.pack('<dBdBdddddddd', unpack(n))
  end
  if plans.ahead() > m.period then
    plans.move_back()
    repaired = true
    if m.only_period == 0 then m.tail = plans.pack() end
  end
  if plans.own then
    m.start, m.used = plans.own.start, plans.own.used
  elseif plans.further then
    -- It may be one of the further plans: a window that ends no earlier than any of theirs.
    local further = plans.further
    m.used = math.min(further.units, m.units)
    if m.opens_at_first == 1 then
      m.start = math.min(further.stamp, math.max(further.expires_at - m.period, 0))
    else
      local periods = math.max(math.ceil(further.expires_at / m.period) - 1, 0)
      m.start = math.min(math.ceil(further.stamp / m.period), periods) * m.period
    end
  else
    m.start, m.used = plans.latest.start, plans.latest.used
  end
  m.plans = plans
end

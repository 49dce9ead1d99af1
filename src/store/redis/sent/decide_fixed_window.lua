-- Decides about a cost: charges it if all limits have room for it.
--
-- m1       a limit; state layout: `window`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_units, m1_period, m1_opens_at_first
-- Reply    charged: a byte 1, then doubles: now, m1_start, m1_used
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_running_start,
--            m1_running_used
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now, m1_start,
--            m1_used, key_expires_at, m1_only_period;
--          then m1_tail;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local m1_tail, m1_tail_at, m1_tail_end, m1_plans, m1_running_start, m1_running_used, m1_fits,
  m1_expires_at
local cost, m1_units, m1_period, m1_opens_at_first = struct.unpack('<dddd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
m1_tail_at, m1_tail_end = 42, 42
if state and #state ~= 42 then
  if #state < 41 then return redis.error_reply('UNREADABLE state') end
  local tail_end = 41
  m1_tail_at = tail_end + 1
  tail_end = tail_end + (struct.unpack('<d', state, 34) == 0 and 82 or 1)
  m1_tail_end = tail_end
  if #state ~= tail_end then return redis.error_reply('UNREADABLE state') end
end
local m1_start, m1_used, key_expires_at, m1_only_period
  = struct.unpack('<dddd', state or string.rep('\0', 41), 10)
if not (m1_start >= 0 and m1_used >= 0 and key_expires_at >= 0
  and m1_start + m1_used + key_expires_at < 2 ^ 58
  and m1_start % 1 + m1_used % 1 + key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: has the cost room?
if m1_only_period ~= m1_period or string.byte(state, m1_tail_at) ~= m1_opens_at_first then
  if not state then
    m1_only_period, m1_tail, dirty = m1_period, string.char(m1_opens_at_first), true
  else
    -- The last cost was admitted under another plan, or there are several.
    local plans, checksum = (function()
      -- plans.lua
      local plans = {}

      -- Fails unless all are numbers that a script has written: whole, not negative, and exact
      -- as doubles.
      function plans.check(...)
        for _, number in ipairs({ ... }) do
          if not (number >= 0 and number < 2 ^ 54 and number % 1 == 0) then
            error('UNREADABLE state')
          end
        end
      end

      -- Reads what is kept of further plans: all zeros if there are none.
      function plans.read_further(units, stamp, expires_at, span)
        plans.check(units, stamp, expires_at, span)
        if expires_at > 0 then
          plans.further = { units = units, stamp = stamp, expires_at = expires_at, span = span }
        end
      end

      -- The numbers that `read_further` reads back.
      function plans.further_numbers()
        local further = plans.further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
        return further.units, further.stamp, further.expires_at, further.span
      end

      -- Finds the plan of the caller: the one of which `is_own` holds.
      function plans.find(is_own)
        for _, plan in ipairs({ plans.latest, plans.other }) do
          if is_own(plan) then
            plans.own = plan
            return
          end
        end
      end

      -- How far the caller's plan is ahead of now; if it has not counted, how far its first
      -- count is.
      function plans.ahead()
        if plans.own then return plans.stamp_of(plans.own) - now end
        return math.max(
          plans.stamp_of(plans.latest), plans.further and plans.further.stamp or 0) - now
      end

      -- The clock has stepped back: moves everything that is ahead to now.
      function plans.move_back()
        local further = plans.further
        if further and further.stamp > now then
          further.stamp = now
          further.expires_at = math.max(math.min(further.expires_at, now + further.span), 1)
        end
        for _, plan in ipairs({ plans.latest, plans.other }) do
          local stamp = plans.stamp_of(plan)
          if stamp > now then
            plans.move_to_now(plan)
            plan.expires_at = math.max(plan.expires_at - (stamp - plans.stamp_of(plan)), 0)
          end
        end
      end

      -- The caller's plan has admitted a cost and becomes the latest: chooses the other plan,
      -- and returns it. Of two plans the one that matters longer is kept.
      function plans.choose_other()
        local latest, other, further = plans.latest, plans.other, plans.further
        if further and further.expires_at <= now then further = nil end
        if plans.own ~= latest then
          latest.expires_at = plans.expiry_of(latest)
          if not plans.own and other and other.expires_at > now then
            local dropped = latest
            if dropped.expires_at > other.expires_at then other, dropped = dropped, other end
            if dropped.expires_at > now then
              local stamp, expires_at = plans.stamp_of(dropped), dropped.expires_at
              further = further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
              further = {
                units = math.max(further.units, plans.units_of(dropped)),
                stamp = math.max(further.stamp, stamp),
                expires_at = math.max(further.expires_at, expires_at),
                span = math.max(further.span, expires_at - stamp),
              }
            end
          else
            other = latest
          end
        end
        if other and other.expires_at <= now then other = nil end
        plans.other, plans.further = other, further
        return other
      end

      -- Whether any plan but the latest is to be kept.
      function plans.are_several()
        return plans.other ~= nil or plans.further ~= nil
      end

      -- The microsecond from which on no plan's count matters.
      function plans.expire_at()
        local other, further = plans.other, plans.further
        return math.max(plans.expiry_of(plans.latest), other and other.expires_at or 0,
          further and further.expires_at or 0)
      end

      return plans
    end)(), (function()
      -- checksum.lua
      return function(...)
        local sum = 0
        for _, number in ipairs({ ... }) do
          sum = (sum * 31 + number % 4294967291) % 4294967291
        end
        return sum
      end
    end)()
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
    local tail = string.sub(state, m1_tail_at, m1_tail_end)
    if m1_only_period ~= 0 then
      plans.latest = plan(m1_only_period, string.byte(tail), m1_start, m1_used, 0)
    else
      if #tail ~= 82 then error('UNREADABLE state') end
      local n = { struct.unpack('<dBdBdddddddd', tail) }
      if n[12] ~= checksum(m1_start, m1_used, unpack(n, 1, 11)) then error('UNREADABLE state') end
      plans.latest = plan(n[1], n[2], m1_start, m1_used, 0)
      if n[3] ~= 0 then plans.other = plan(n[3], n[4], n[5], n[6], n[7]) end
      plans.read_further(n[8], n[9], n[10], n[11])
    end
    plans.find(function(plan)
      return plan.period == m1_period and plan.opens_at_first == m1_opens_at_first
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
    if plans.ahead() > m1_period then
      plans.move_back()
      repaired = true
      if m1_only_period == 0 then m1_tail = plans.pack() end
    end
    if plans.own then
      m1_start, m1_used = plans.own.start, plans.own.used
    elseif plans.further then
      -- It may be one of the further plans: a window that ends no earlier than any of theirs.
      local further = plans.further
      m1_used = math.min(further.units, m1_units)
      if m1_opens_at_first == 1 then
        m1_start = math.min(further.stamp, math.max(further.expires_at - m1_period, 0))
      else
        local periods = math.max(math.ceil(further.expires_at / m1_period) - 1, 0)
        m1_start = math.min(math.ceil(further.stamp / m1_period), periods) * m1_period
      end
    else
      m1_start, m1_used = plans.latest.start, plans.latest.used
    end
    m1_plans = plans
  end
elseif m1_start > now + m1_period then
  -- The clock has stepped back. The window lasts for a period from now, and an aligned one until
  -- the end of the one that begins next: if it ended sooner, another one would open too early.
  m1_start, repaired = now, true
  if m1_opens_at_first == 0 then m1_start = math.ceil(now / m1_period) * m1_period end
end
m1_running_start, m1_running_used = m1_start, m1_used
if now >= m1_start + m1_period or (m1_used == 0 and m1_opens_at_first == 1) then
  m1_running_start, m1_running_used = now, 0
  if m1_start > now then m1_running_start = m1_start end
  if m1_opens_at_first == 0 then
    m1_running_start = m1_running_start - m1_running_start % m1_period
  end
end
m1_fits = m1_running_used + cost <= m1_units or cost == 0

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  m1_start, m1_used = m1_running_start, m1_running_used + cost
  if m1_plans then
    local plans = m1_plans
    local other = plans.choose_other()
    if not plans.own and m1_opens_at_first == 0 then
      -- The window was taken over from another plan, and may have begun at another instant.
      m1_start = math.max(now, m1_start)
      m1_start = m1_start - m1_start % m1_period
    end
    if other then
      local start, used = plans.running(other)
      other.start, other.used = start, math.min(used + cost, 2 ^ 53 - 2 ^ 32)
    end
    plans.latest = {
      period = m1_period, opens_at_first = m1_opens_at_first, start = m1_start, used = m1_used,
    }
    dirty = true
    if plans.are_several() then
      m1_only_period, m1_tail = 0, plans.pack()
    else
      m1_only_period, m1_tail = m1_period, string.char(m1_opens_at_first)
    end
  end
end

if charged or repaired then
  -- m1: when does its state expire?
  if m1_plans then
    m1_start, m1_used = m1_plans.latest.start, m1_plans.latest.used
    m1_expires_at = m1_plans.expire_at()
  else
    m1_expires_at = m1_start + m1_period
  end
  -- Write.
  local kept = struct.pack('<Bddd', 1, now, m1_start, m1_used)
  if m1_expires_at >= key_expires_at or repaired or dirty then
    local longer = 0
    if m1_expires_at > now then longer = (m1_expires_at - now) / 64 + 1000000 end
    key_expires_at = math.ceil(m1_expires_at + longer)
    local whole = kept .. struct.pack('<dd', key_expires_at, m1_only_period)
    local milliseconds = string.format('%d', math.max(math.ceil(key_expires_at / 1000), 1))
    if state and not m1_tail then
      call('SETRANGE', key, '0', whole)
      call(expire, key, milliseconds)
    else
      whole = whole .. (m1_tail or string.sub(state, m1_tail_at, m1_tail_end))
      call('SET', key, whole, 'PXAT', milliseconds)
    end
  else
    call('SETRANGE', key, '0', kept)
  end
  if charged then return kept end
end

-- Nothing was charged.
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bdddd', 0, now, admits, m1_running_start, m1_running_used)

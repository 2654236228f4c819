-- Posts readings of one minute for d1 to d1000 (or DEVICES devices) in turn, in order of time for each device. BATCH is
-- the number of readings per request; FIRST is the first reading's minute since 2016.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local batch, first = tonumber(os.getenv("BATCH")), tonumber(os.getenv("FIRST"))
local devices = tonumber(os.getenv("DEVICES") or 1000)
local base, sent, head = 1451606400, 0

function init()
    head = " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port ..
        "\r\nContent-Type: application/json\r\nAuthorization: " .. sessions()[1] .. "\r\n"
end

local function minute(n)
    return os.date("!%Y-%m-%dT%H:%M:00Z", base + n * 60)
end

local function reads(from)
    local list, start = {}, minute(from)
    for i = 1, batch do
        local stop = minute(from + i)
        list[i] = '{"startDate":"' .. start .. '","endDate":"' .. stop .. '","value":10}'
        start = stop
    end
    return table.concat(list, ",")
end

function request()
    local device, turn = sent % devices + 1, math.floor(sent / devices)
    sent = sent + 1
    local body = '{"type":"Delta","unit":"Wh","reads":[' .. reads(first + turn * batch) .. "]}"
    return "POST /api/meter-reads/new/d" .. device .. head .. "Content-Length: " .. #body ..
        "\r\n\r\n" .. body
end

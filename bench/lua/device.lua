-- Registers devices, each with a different externalId.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local head, count, prefix

function init()
    local token = sessions()[1]
    head = "POST /api/device HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port ..
        "\r\nContent-Type: application/json\r\nAuthorization: " .. token .. "\r\nContent-Length: "
    count = 0
    prefix = seed .. "-"
end

function request()
    count = count + 1
    local name = prefix .. count
    local body = '{"externalId":"w' .. name .. '","siteName":"Rooftop ' .. name ..
        '","countryCode":"DE","commissioningDate":"2024-05-01","capacity":9.9,"fuelCode":"ES100",' ..
        '"deviceTypeCode":"TC110","serialNumber":"SN-4711"}'
    return head .. #body .. "\r\n\r\n" .. body
end

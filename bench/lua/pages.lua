-- Asks for a random one of the first 50,000 numbered pages of the certificate log.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

function init()
    wrk.headers["Authorization"] = sessions()[1]
    math.randomseed(seed)
end

function request()
    return wrk.format("GET",
        "/api/certificate-log/issuer/certifiedlogOfdevices?pageNumber=" .. math.random(50000))
end

#include "country.h"

#include <string.h>
#include <strings.h>

// clang-format off
/* Alpha-2, then alpha-3. */
static const char codes[COUNTRIES][6] = {
    "ADAND", "AEARE", "AFAFG", "AGATG", "AIAIA", "ALALB", "AMARM", "AOAGO", "AQATA", "ARARG",
    "ASASM", "ATAUT", "AUAUS", "AWABW", "AXALA", "AZAZE", "BABIH", "BBBRB", "BDBGD", "BEBEL",
    "BFBFA", "BGBGR", "BHBHR", "BIBDI", "BJBEN", "BLBLM", "BMBMU", "BNBRN", "BOBOL", "BQBES",
    "BRBRA", "BSBHS", "BTBTN", "BVBVT", "BWBWA", "BYBLR", "BZBLZ", "CACAN", "CCCCK", "CDCOD",
    "CFCAF", "CGCOG", "CHCHE", "CICIV", "CKCOK", "CLCHL", "CMCMR", "CNCHN", "COCOL", "CRCRI",
    "CUCUB", "CVCPV", "CWCUW", "CXCXR", "CYCYP", "CZCZE", "DEDEU", "DJDJI", "DKDNK", "DMDMA",
    "DODOM", "DZDZA", "ECECU", "EEEST", "EGEGY", "EHESH", "ERERI", "ESESP", "ETETH", "FIFIN",
    "FJFJI", "FKFLK", "FMFSM", "FOFRO", "FRFRA", "GAGAB", "GBGBR", "GDGRD", "GEGEO", "GFGUF",
    "GGGGY", "GHGHA", "GIGIB", "GLGRL", "GMGMB", "GNGIN", "GPGLP", "GQGNQ", "GRGRC", "GSSGS",
    "GTGTM", "GUGUM", "GWGNB", "GYGUY", "HKHKG", "HMHMD", "HNHND", "HRHRV", "HTHTI", "HUHUN",
    "IDIDN", "IEIRL", "ILISR", "IMIMN", "ININD", "IOIOT", "IQIRQ", "IRIRN", "ISISL", "ITITA",
    "JEJEY", "JMJAM", "JOJOR", "JPJPN", "KEKEN", "KGKGZ", "KHKHM", "KIKIR", "KMCOM", "KNKNA",
    "KPPRK", "KRKOR", "KWKWT", "KYCYM", "KZKAZ", "LALAO", "LBLBN", "LCLCA", "LILIE", "LKLKA",
    "LRLBR", "LSLSO", "LTLTU", "LULUX", "LVLVA", "LYLBY", "MAMAR", "MCMCO", "MDMDA", "MEMNE",
    "MFMAF", "MGMDG", "MHMHL", "MKMKD", "MLMLI", "MMMMR", "MNMNG", "MOMAC", "MPMNP", "MQMTQ",
    "MRMRT", "MSMSR", "MTMLT", "MUMUS", "MVMDV", "MWMWI", "MXMEX", "MYMYS", "MZMOZ", "NANAM",
    "NCNCL", "NENER", "NFNFK", "NGNGA", "NINIC", "NLNLD", "NONOR", "NPNPL", "NRNRU", "NUNIU",
    "NZNZL", "OMOMN", "PAPAN", "PEPER", "PFPYF", "PGPNG", "PHPHL", "PKPAK", "PLPOL", "PMSPM",
    "PNPCN", "PRPRI", "PSPSE", "PTPRT", "PWPLW", "PYPRY", "QAQAT", "REREU", "ROROU", "RSSRB",
    "RURUS", "RWRWA", "SASAU", "SBSLB", "SCSYC", "SDSDN", "SESWE", "SGSGP", "SHSHN", "SISVN",
    "SJSJM", "SKSVK", "SLSLE", "SMSMR", "SNSEN", "SOSOM", "SRSUR", "SSSSD", "STSTP", "SVSLV",
    "SXSXM", "SYSYR", "SZSWZ", "TCTCA", "TDTCD", "TFATF", "TGTGO", "THTHA", "TJTJK", "TKTKL",
    "TLTLS", "TMTKM", "TNTUN", "TOTON", "TRTUR", "TTTTO", "TVTUV", "TWTWN", "TZTZA", "UAUKR",
    "UGUGA", "UMUMI", "USUSA", "UYURY", "UZUZB", "VAVAT", "VCVCT", "VEVEN", "VGVGB", "VIVIR",
    "VNVNM", "VUVUT", "WFWLF", "WSWSM", "YEYEM", "YTMYT", "ZAZAF", "ZMZMB", "ZWZWE",
};
// clang-format on

int country_find(const char *code)
{
    size_t length = strlen(code);
    const size_t start = length == 3 ? 2 : 0;

    if (length != 2 && length != 3)
        return -1;
    for (int i = 0; i < COUNTRIES; i++)
        if (!strncasecmp(codes[i] + start, code, length))
            return i;
    return -1;
}

void country_code(int country, size_t letters, char code[4])
{
    memcpy(code, codes[country] + (letters == 3 ? 2 : 0), letters);
    code[letters] = '\0';
}

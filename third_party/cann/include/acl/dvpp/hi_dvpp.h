// CANN's interface, declared anew: the media interface V2.
#pragma once

#include "hi_dvpp_common.h"
#include "hi_dvpp_pngd.h"
#include "hi_dvpp_vdec.h"
#include "hi_dvpp_venc.h"
#include "hi_dvpp_vpc.h"
#include "hi_mpi_sys.h"

/* The verbs, one file each. */
#ifndef TD_TOOLS_VERBS_H
#define TD_TOOLS_VERBS_H

#include "cli.h"

extern const verb verb_import, verb_export, verb_info, verb_verify, verb_plan, verb_simulate, verb_replay, verb_view,
    verb_sql, verb_recover, verb_merge, verb_trim, verb_compact,
    verb_ops, verb_storages, verb_top, verb_explain, verb_check, verb_diff,
    verb_sharding, verb_devices;

#endif

/* Requests that are being answered. */
#ifndef TOMOS_CLI_VIEW_ACTIVE_H
#define TOMOS_CLI_VIEW_ACTIVE_H

#include "view.h"

bool active_start(void);
/* Cancels what is being done, and begins nothing more. */
void active_stop(void);
/* A flag that this thread watches until active_end, and that is raised when the client closes its
 * connection; NULL: no more requests are taken. */
tomos_cancel *active_begin(int connection);
void active_end(tomos_cancel *flag);

#endif

/* The copies of one direction by their tickets, each with the driver's event, for devices with drivers of their own. */
#ifndef TD_RUNTIME_TICKETS_H
#define TD_RUNTIME_TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A ring: the event of ticket t stands at t % capacity. All zero is empty. */
typedef struct td_tickets {
  void **events;
  size_t capacity;
  uint64_t given, done; /* the last ticket given out; the last one known to have ended */
} td_tickets;

void td_tickets_finish(td_tickets *tickets);

/* Sees to it that the next ticket has a place. Places that are moved keep what stands in them; new ones are NULL. False if memory ran out. */
bool td_tickets_make_room(td_tickets *tickets);

static inline void **td_tickets_at(const td_tickets *tickets, uint64_t ticket)
{
  return &tickets->events[ticket % tickets->capacity];
}

#endif

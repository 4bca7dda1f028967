#include "runtime/tickets.h"

#include <stdlib.h>

void td_tickets_finish(td_tickets *tickets)
{
  free(tickets->events);
  *tickets = (td_tickets){0};
}

bool td_tickets_make_room(td_tickets *tickets)
{
  if (tickets->capacity && tickets->given - tickets->done < tickets->capacity) return true;
  size_t capacity = tickets->capacity ? tickets->capacity * 2 : 64;
  void **events = calloc(capacity, sizeof *events);
  if (!events) return false;
  /* All places are taken, by the tickets from done + 1 to given. */
  for (uint64_t ticket = tickets->done + 1; tickets->capacity && ticket <= tickets->given; ticket++)
    events[ticket % capacity] = *td_tickets_at(tickets, ticket);
  free(tickets->events);
  tickets->events = events;
  tickets->capacity = capacity;
  return true;
}

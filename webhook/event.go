package webhook

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
)

// eventPath is the last part of the path of events, or the last but one, before
// the event's name.
const eventPath = "event"

// event sends the token's call an event. With a name in the path, the body is
// the payload. Otherwise it holds all of the event.
func (h *handler) event(ctx context.Context, d *delivery) error {
	in := struct {
		Name    string          `json:"name"`
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}{Name: d.event, Payload: d.body}
	if d.event == "" {
		if len(d.body) == 0 {
			return d.misfit(errEmptyEvent)
		}
		in.Payload = nil
		if err := d.decode(&in, eventBody); err != nil {
			return err
		}
	}
	if only := d.token.Events; in.Name == "" && len(only) == 1 {
		in.Name = only[0]
	}
	if in.ID == "" {
		in.ID = d.id
	}
	switch {
	case in.Name == "":
		return d.misfit(errNoName)
	case in.ID == "":
		return httpin.Refuse("no_id",
			"the event has no id, by which a second delivery of it is known: give one as the "+
				"header "+h.config.DeliveryHeader+", or as the member id")
	case !d.token.Sends(in.Name):
		return httpin.Refuse("not_allowed",
			"the token does not permit to send this event; it is made for others")
	}
	res, err := h.rn.Deliver(ctx, d.token.Session, runner.Mail{
		Call: d.token.Call, Name: in.Name, ID: in.ID, Payload: in.Payload,
		Actor: h.actor(d), Delivery: d.id, Sender: d.signed.Sender,
	})
	if err != nil {
		return err
	}
	d.accepted(res.Receipts[0])
	return nil
}

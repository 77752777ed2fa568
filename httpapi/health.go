package httpapi

import "net/http"

// health tells how the handler is.
type health struct {
	Status string `json:"status"` // "ok"
}

func (v *visit) health() error { return v.answer(http.StatusOK, health{"ok"}) }

// ready tells whether new runs are taken, for a balancer.
func (v *visit) ready() error {
	if err := v.h.crew.refuses(); err != nil {
		return err
	}
	if v.h.config.Ready != nil {
		if err := v.h.config.Ready(v.r.Context()); err != nil {
			return err
		}
	}
	return v.answer(http.StatusOK, health{"ok"})
}

// document answers with the description of the routes.
func (v *visit) document() error {
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	_, _ = v.w.Write(v.h.openAPI)
	return nil
}

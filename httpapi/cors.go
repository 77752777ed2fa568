package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// CORS are the pages of other origins that may use the handler. The zero value
// is none: a page of the handler's own origin needs nothing.
type CORS struct {
	// Origins are those that may, each as a browser writes it:
	// "https://chat.example.com". "*" alone is all of them, and then a request of
	// another origin that brings cookies is refused.
	Origins []string
	// Credentials lets pages of Origins send cookies along. Not with "*".
	Credentials bool
}

// cors answers for the origins of requests. It does not change.
type cors struct {
	own         *http.CrossOriginProtection
	origins     map[string]bool
	all         bool
	credentials bool
}

func newCORS(c CORS) (cors, error) {
	out := cors{own: http.NewCrossOriginProtection(), origins: map[string]bool{},
		credentials: c.Credentials}
	for _, origin := range c.Origins {
		if origin == "*" {
			if out.all = true; c.Credentials || len(c.Origins) > 1 {
				return out, errors.New("httpapi: Config.CORS has the origin \"*\" beside others, or " +
					"with Credentials: any page could act for a user who is signed in")
			}
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return out, fmt.Errorf("httpapi: Config.CORS has %q, which is no origin; one is "+
				"\"https://chat.example.com\"", origin)
		}
		out.origins[origin] = true
		if err := out.own.AddTrustedOrigin(origin); err != nil {
			return out, fmt.Errorf("httpapi: Config.CORS: %w", err)
		}
	}
	return out, nil
}

// The headers that a page of another origin may send, and read.
const (
	sentHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, Range, If-Range, " +
		"If-None-Match"
	readHeaders = "Location, Retry-After, Content-Range, Accept-Ranges, ETag, Content-Disposition"
)

// allow sets the headers by which a browser lets a page read the answer.
func (c *cors) allow(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case c.all:
		h.Set("Access-Control-Allow-Origin", "*")
	case c.origins[origin]:
		h.Set("Access-Control-Allow-Origin", origin)
		if c.credentials {
			h.Set("Access-Control-Allow-Credentials", "true")
		}
	default:
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		return
	}
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Expose-Headers", readHeaders)
}

// preflight answers what a browser asks before it sends a request of another
// origin.
func (c *cors) preflight(w http.ResponseWriter, methods []string) {
	h := w.Header()
	h.Set("Allow", strings.Join(methods, ", "))
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
		h.Set("Access-Control-Allow-Headers", sentHeaders)
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// foreign returns the refusal of a request that changes something, and that a
// page of another origin made the browser send, by the browser's own word.
func (c *cors) foreign(r *http.Request) error {
	if c.own.Check(r) == nil || c.all && r.Header.Get("Cookie") == "" {
		return nil
	}
	return refuse("cross_site", "a page of another site made the browser send this")
}

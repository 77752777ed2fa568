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
	// "https://chat.example.com". "*" alone is all of them, for APIs with tokens:
	// then a request of another origin is refused that brings what browsers send
	// by themselves, cookies or a password. Client certificates and addresses are
	// not seen: with those, list the origins.
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
// page of another origin made the browser send, by the browser's own word. A
// stream counts as a change: it takes one of the user's places.
func (c *cors) foreign(r *http.Request, streams bool) error {
	judged := r
	if streams {
		judged = r.WithContext(r.Context())
		judged.Method = http.MethodPost
	}
	if c.own.Check(judged) == nil || c.all && !ambient(r.Header) {
		return nil
	}
	return refuse("cross_site", "a page of another site made the browser send this")
}

// ambient reports whether a request brings what browsers send by themselves to
// a site that the user has once signed in to. A page that sets a header, for a
// token, asks beforehand.
func ambient(h http.Header) bool {
	for _, value := range h.Values("Authorization") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch strings.ToLower(scheme) {
		case "basic", "digest", "negotiate", "ntlm":
			return true
		}
	}
	return h.Get("Cookie") != ""
}

package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/fermata-ai/fermata/internal/httpin"
)

// guard sets the headers of every page: nothing is loaded, framed, kept, or told
// to another site.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+linkStyleHash+"'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY") // for browsers that don't know frame-ancestors
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// receive returns the form that a POST brings.
func (v *visit) receive() (sent url.Values, ok bool) {
	defer v.patient() // the store may take longer than the browser may
	media, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		v.tell(http.StatusUnsupportedMediaType, "This form isn't known here",
			"A form of application/x-www-form-urlencoded is taken.")
		return nil, false
	}
	body, err := []byte(nil), httpin.Plain(v.w, v.r)
	if err == nil {
		body, err = v.links.bodies.Read(v.w, v.r)
	}
	if err == nil {
		// What can't be unescaped is no browser's.
		if sent, err = url.ParseQuery(string(body)); err != nil {
			err = httpin.Refuse("broken", "the form can't be read")
		}
	}
	if err != nil {
		v.tell(Status(err), "This could not be taken", Detail(err)+".")
		return nil, false
	}
	return sent, true
}

// foreign reports whether, by its browser, another site made it send the
// request. Pages here send no referrer, and so their browser gives "null" as
// the origin where it doesn't know Sec-Fetch-Site: then the form's own token,
// which another site can't know, is all that counts.
func (v *visit) foreign() bool {
	switch v.r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
	default:
		return true
	}
	origin := v.r.Header.Get("Origin")
	return origin != "" && origin != "null" && !strings.EqualFold(origin, v.links.origin)
}

// cookieName is that of the cookie that a form's token is bound to. The prefix
// keeps other hosts of the same domain from setting it.
func (l *Links) cookieName() string {
	if l.secure {
		return "__Host-fermata-links"
	}
	return "fermata-links"
}

// browser returns the secret of the visitor's browser; nil if it has none.
func (v *visit) browser() []byte {
	c, err := v.r.Cookie(v.links.cookieName())
	if err != nil {
		return nil
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(c.Value)
	if err != nil || len(secret) != sha256.Size {
		return nil
	}
	return secret
}

// ticket returns what the form has to send back, and sees that the browser has
// the secret that goes with it.
func (v *visit) ticket() string {
	secret := v.browser()
	if secret == nil {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
		http.SetCookie(v.w, &http.Cookie{
			Name: v.links.cookieName(), Value: base64.RawURLEncoding.EncodeToString(secret),
			Path: "/", Secure: v.links.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	return v.ticketOf(secret)
}

// ticketOf binds a form to the browser's secret, the link, and the user: a form
// that was made for another of these is refused.
func (v *visit) ticketOf(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(v.text + "\n" + string(v.user)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hasTicket reports whether a form was made by this page for this browser.
func (v *visit) hasTicket(sent url.Values) bool {
	secret := v.browser()
	return secret != nil && hmac.Equal([]byte(sent.Get("ticket")), []byte(v.ticketOf(secret)))
}

package wire

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/llm"
)

// hidden stands in a key's place.
const hidden = "(the key)"

// leastSecret is how many bytes a secret has at least, and a beginning of one
// that is hidden.
const leastSecret = 8

// Secrets are texts that no error may tell, since services and gateways quote
// them: a key, and what headers hold that is one.
type Secrets []string

// NewSecrets finds the secrets among a key and headers, either of which may be
// missing. What is shorter than 8 bytes is no key, but a word such as "none".
func NewSecrets(key string, h http.Header) Secrets {
	found := []string{key}
	for name, values := range h {
		if !isSecret(name) {
			continue
		}
		for _, v := range values {
			found = append(found, v)
			if _, token, ok := strings.Cut(strings.TrimSpace(v), " "); ok { // "Bearer ..."
				found = append(found, strings.TrimSpace(token))
			}
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < leastSecret })
	// The whole before its parts.
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(len(b)-len(a),
			strings.Compare(a, b))
	})
	return slices.Compact(found)
}

// isSecret reports whether a header holds a key, going by its name:
// Authorization, X-Api-Key, X-Goog-Api-Key, Api-Key, Cookie and the like.
func isSecret(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "password", "credential",
		"cookie", "signature"},
		func(word string) bool { return strings.Contains(header, word) })
}

// Text returns a text without the secrets, and without the beginning of one
// where the text was cut: by [Excerpt], by a verb such as %.80q, or at its end.
func (s Secrets) Text(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	for _, secret := range s {
		text = withoutCut(text, secret)
	}
	return text
}

// withoutCut hides the beginnings of a secret before a cut.
func withoutCut(text, secret string) string {
	if len(secret) < leastSecret {
		return text
	}
	var out strings.Builder
	for {
		i := strings.Index(text, secret[:leastSecret])
		if i < 0 {
			break
		}
		told := 0
		for n := leastSecret; n <= len(secret) && strings.HasPrefix(text[i:], secret[:n]); n++ {
			if isCut(text[i+n:]) { // and perhaps again: a secret may hold a dot
				told = n
			}
		}
		if told > 0 {
			out.WriteString(text[:i] + hidden)
		} else {
			told = 1
			out.WriteString(text[:i+told])
		}
		text = text[i+told:]
	}
	out.WriteString(text)
	return out.String()
}

// isCut reports whether what follows a word may stand where more of it was.
func isCut(rest string) bool {
	return rest == "" || rest[0] == '"' || strings.HasPrefix(rest, excerpt.Mark)
}

// Error returns an error whose text is without the secrets. What errors.As
// finds behind it is the same.
func (s Secrets) Error(err error) error {
	if err == nil || s.Text(err.Error()) == err.Error() {
		return err
	}
	var e *llm.Error
	if !errors.As(err, &e) || e.Err == nil {
		return &told{s.Text(err.Error()), err}
	}
	clean := *e
	clean.RequestID, clean.Err = s.Text(e.RequestID), &told{s.Text(e.Err.Error()), e.Err}
	return &clean
}

// ShownHeader returns a copy of headers to be printed.
func ShownHeader(h http.Header) http.Header {
	h = h.Clone()
	for name := range h {
		if isSecret(name) {
			h[name] = []string{hidden}
		}
	}
	return h
}

// ShownKey returns what is printed in place of a key.
func ShownKey(key string) string {
	if key == "" {
		return ""
	}
	return hidden
}

// ShownURL returns what is printed of a base URL: without a password.
func ShownURL(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "(no URL)"
	}
	return u.Redacted()
}

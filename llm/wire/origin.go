package wire

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// Origin is who made what an adapter keeps in [llm.Native]: the provider
// itself, or another server that speaks its API. What one encrypted or signed,
// the other can't read, and refuses. So the parts of another server are kept as
// "provider/host", and go back to that one alone; an adapter knows its own
// parts by the provider's name, whichever server made them, and hears of no
// others.
type Origin struct{ provider, name string }

// NewOrigin returns where the base URL leads, or of the name that an option
// gives: a host, with its port if it has one. All hosts of the provider's own
// domain, such as "anthropic.com", are one origin.
func NewOrigin(provider, domain, base, option string) (Origin, error) {
	host := option
	if u, err := url.Parse(base); host == "" && err == nil {
		host = u.Host
	}
	if host = strings.ToLower(host); strings.ContainsAny(host, "/@?# \t\r\n") {
		return Origin{}, fmt.Errorf("Options.Origin is %q: it must be a host, such as %q", option,
			domain)
	}
	if host == "" || InDomain("//"+host, domain) {
		return Origin{provider, provider}, nil
	}
	return Origin{provider, provider + "/" + host}, nil
}

// InDomain reports whether a URL's host is of a domain.
func InDomain(base, domain string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), "."+domain)
}

// Name returns the Provider of the native parts that are kept.
func (o Origin) Name() string { return cmp.Or(o.name, o.provider) }

// Sent are messages for the adapter: the parts of this origin have the
// provider's name, and no others have it. What needs no change stays as it is.
func (o Origin) Sent(messages []llm.Message) []llm.Message {
	if o.name == o.provider {
		return messages
	}
	out := slices.Clone(messages)
	for i, m := range out {
		parts := make([]llm.Part, len(m.Parts))
		for j, p := range m.Parts {
			parts[j] = eachNative(p, func(n *llm.Native) {
				switch n.Provider {
				case o.name:
					n.Provider = o.provider
				case o.provider:
					n.Provider += "/" // the provider itself made it
				}
			})
		}
		out[i].Parts = parts
	}
	return out
}

// Made returns an event of the adapter's, with the name of the origin in what
// it made.
func (o Origin) Made(e llm.Event) llm.Event {
	done, ok := e.(llm.PartDone)
	if !ok || o.name == o.provider {
		return e
	}
	done.Part = eachNative(done.Part, func(n *llm.Native) {
		if n.Provider == o.provider {
			n.Provider = o.name
		}
	})
	return done
}

// eachNative returns a copy of a part, whose native forms f may change: that of
// the part, and those of parts in it. It looks at the types of the fields, so
// that it holds of kinds of part to come.
func eachNative(p llm.Part, f func(*llm.Native)) llm.Part {
	if p == nil {
		return nil
	}
	v := reflect.New(reflect.TypeOf(p)).Elem()
	v.Set(reflect.ValueOf(p))
	eachNativeIn(v, f)
	return v.Interface().(llm.Part)
}

func eachNativeIn(v reflect.Value, f func(*llm.Native)) {
	switch own := v.Addr().Interface().(type) {
	case *llm.Native:
		f(own)
		return
	case **llm.Native:
		if *own != nil {
			c := **own
			f(&c)
			*own = &c
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachNativeIn(v.Field(i), f)
		}
	case reflect.Slice:
		if v.Len() > 0 && v.Type().Elem().Kind() == reflect.Struct { // media, in results
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			v.Set(own)
			for i := range v.Len() {
				eachNativeIn(v.Index(i), f)
			}
		}
	}
}

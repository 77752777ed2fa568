package tool

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// measures has a fault for each of its fields, all at one place.
type measures struct {
	N  int            `json:"n,omitempty"`
	F  float64        `json:"f,omitempty"`
	M  map[string]int `json:"m,omitempty"`
	L  []string       `json:"l,omitempty"`
	At time.Time      `json:"at,omitzero"`
	B  bool           `json:"b,omitempty"`
	P  *int8          `json:"p,omitempty"`
}

type measured struct {
	By map[string]measures `json:"by,omitempty"`
	A  netip.Addr          `json:"a,omitzero"`
}

// TestARefusalQuotesLittleOfTheArguments: the text for the model is bounded,
// for each kind of fault and at each place.
func TestARefusalQuotesLittleOfTheArguments(t *testing.T) {
	long := strings.Repeat("k", 250<<10)
	spec := Spec{Name: "a"}
	open := Spec{Name: "a", Input: raw(`{"type":"object"}`)} // which leaves all to the decoder
	for name, c := range map[string]struct {
		spec Spec
		args string
		want []string
	}{
		"faults below a long name": {spec,
			`{"by":{"` + long + `":{"n":"x","f":"x","m":1,"l":1,"at":1,"b":1,"p":"x"}}}`,
			[]string{"/by/" + long[:64] + ".../at: must be", "/p: must be"}},
		"a name in another case": {open, `{"by":{"` + long + `":{"N":1}}}`,
			[]string{`there is no property "N"; did you mean "n"?`}},
		"what a method says": {spec, `{"a":"` + strings.Repeat(`\u0001`, 40<<10) + `"}`,
			[]string{"ParseAddr", "unable to parse IP"}},
		"what the decoder says": {open,
			`{"by":{"` + long + `":{"p":` + strings.Repeat("9", 4000) + `}}}`,
			[]string{"must be a whole number from -128 to 127"}},
		"an unknown name": {spec, `{"` + long + `":1}`,
			[]string{"there is no property", "the properties are"}},
		"a value of another type": {spec, `{"by":"` + long + `"}`, []string{"must be an object"}},
		"no JSON below a long name": {spec, `{"by":{"` + long + `":nope}}`,
			[]string{"a JSON value is expected"}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := Must(Func(c.spec, func(context.Context, measured) (Result[int], error) {
				return Done(1), nil
			}))
			_, err := registry(t, tl).Prepare(Call{Tool: "a", Arguments: raw(c.args)})
			if err == nil {
				t.Fatal("they were taken")
			}
			contains(t, err.Error(), c.want...)
			if n := len(err.Error()); n > 2<<10 {
				t.Errorf("of arguments of %d bytes the model is told %d", len(c.args), n)
			}
		})
	}
}

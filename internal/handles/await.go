package handles

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// AwaitTool is the name of the tool that waits for handles.
const AwaitTool = "await"

// The bounds of an await.
const (
	MaxAwaited = tool.MaxAwaited // handles
	MaxWait    = 366 * 24 * time.Hour
)

// AwaitSpec returns the Spec of the tool, without an Output: a reply is an
// [Awaited].
func AwaitSpec() tool.Spec {
	ids := func(words string) *jsontree.Object {
		return jsontree.New("type", "array", "items", text(""), "description", words)
	}
	timeout := jsontree.New("type", "number", "description",
		"How many seconds to wait at most; without it, as long as it takes.")
	input := jsontree.New("type", "object", "properties", jsontree.New(
		"any", ids("Ids of handles: one of these must have stopped."),
		"all", ids("Ids of handles: all of these must have stopped."),
		"timeout_secs", timeout), "additionalProperties", false)
	return tool.Spec{
		Name: AwaitTool,
		Description: "Wait until handles have stopped: all of `all`, and one of `any`. Give at " +
			"least one id. It returns those that have stopped, with their results, and those " +
			"that have not, which go on.",
		Input: input.Raw(), Effect: tool.ReadOnly, MayPause: true,
	}
}

// Await is what a call of the tool asks for. No id is there twice, and there is
// one at least.
type Await struct {
	Any, All []string
	// Timeout is how long to wait; zero is to look and not to wait. Without
	// Bounded it is for ever.
	Timeout time.Duration
	Bounded bool
}

// IDs returns all ids, those of All first.
func (a Await) IDs() []string { return slices.Concat(a.All, a.Any) }

// NoHandle is the error of an await without a handle.
const NoHandle = "At least one handle ID required"

// ParseAwait reads the arguments of a call. The error is a *misfit.Error, in
// words that let a model correct itself in one try. Whether there are such
// handles is not known here: see [NotFound].
func ParseAwait(arguments json.RawMessage) (Await, error) {
	all, err := members(arguments)
	if err != nil {
		return Await{}, err
	}
	p := awaitParser{seen: map[string]string{}}
	for _, m := range all {
		name, v := string(m.Name), value(m)
		switch {
		case name == "any" && v != nil:
			p.await.Any = p.ids(name, v)
		case name == "all" && v != nil:
			p.await.All = p.ids(name, v)
		case name == "timeout_secs" && v != nil:
			p.timeout(v)
		case name == "any", name == "all", name == "timeout_secs": // null: it is absent
		default:
			p.unknown(name, []string{"any", "all", "timeout_secs"})
		}
	}
	switch n := len(p.seen); {
	case len(p.faults) > 0:
		return Await{}, p.err()
	case n == 0:
		return Await{}, misfit.Of("required", NoHandle+": give ids in any, or in all")
	case n > MaxAwaited:
		return Await{}, misfit.Of("maxItems", fmt.Sprintf(
			"there are %d handles, and an await takes %d at most: await the others afterwards", n,
			MaxAwaited))
	}
	return p.await, nil
}

type awaitParser struct {
	await Await
	seen  map[string]string // where an id stands
	faults
}

// ids reads a list of ids.
func (p *awaitParser) ids(name string, raw json.RawMessage) (ids []string) {
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		p.add([]string{name}, "type", raw, "must be an array of handles' ids")
		return nil
	}
	for i, v := range list {
		at := []string{name, strconv.Itoa(i)}
		id, ok := isText(v)
		if !ok {
			p.add(at, "type", v, "must be a string, the id of a handle")
			continue
		}
		where, twice := p.seen[id]
		if err := CheckID(id); err != nil {
			p.add(at, "pattern", v, "%v", err)
		} else if twice {
			p.add(at, "uniqueItems", v, "is there already, at %s: name each handle once", where)
		} else {
			p.seen[id] = schema.Pointer(at)
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *awaitParser) timeout(raw json.RawMessage) {
	at := []string{"timeout_secs"}
	secs, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		p.add(at, "type", raw, "must be a number of seconds")
	case secs < 0:
		p.add(at, "minimum", raw, "must not be negative")
	case err != nil || secs > MaxWait.Seconds():
		p.add(at, "maximum", raw, "must be at most %.0f, which is %.0f days: leave it out to wait "+
			"as long as it takes", MaxWait.Seconds(), MaxWait.Hours()/24)
	default:
		p.await.Timeout, p.await.Bounded = time.Duration(secs*float64(time.Second)), true
	}
}

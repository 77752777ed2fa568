package handles

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// Request is what a call of the tool asks for.
type Request struct {
	Action Action
	ID     string // of the handle; empty without an action
	// Input is a JSON value, with Apply.
	Input json.RawMessage
	// Own are the arguments for the tool itself, with Spawn and without an
	// action. They fit the schema that the model was told, and are not checked
	// by the tool's own.
	Own json.RawMessage
}

// Parse reads the arguments of a call. The error is a *misfit.Error, in words
// that let a model correct itself in one try.
//
// A null stands for nothing where it belongs to another variant of the call: a
// model that is held to the schema has to fill in all parameters.
func (f *Form) Parse(arguments json.RawMessage) (Request, error) {
	all, err := members(arguments)
	if err != nil {
		return Request{}, err
	}
	p := parser{form: f}
	var own []strictjson.RawMember
	for _, m := range all {
		switch name := string(m.Name); name {
		case actionParameter:
			p.action = value(m)
		case idParameter:
			p.id = value(m)
		case inputParameter:
			p.input = value(m)
		default:
			own = append(own, m)
		}
	}
	r := p.request(own, arguments, len(own) == len(all))
	if err := p.err(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// value returns a member's; nil for null.
func value(m strictjson.RawMember) json.RawMessage {
	if string(m.Value) == "null" {
		return nil
	}
	return m.Value
}

// parser reads one call. A parameter that is absent is nil.
type parser struct {
	form              *Form
	action, id, input json.RawMessage
	faults
}

// request reads the call, whose own parameters are given. Those of a call
// without an action are the arguments as they stand, if they are alone.
func (p *parser) request(own []strictjson.RawMember, whole json.RawMessage, alone bool) Request {
	r := Request{Action: p.readAction()}
	if len(p.faults) > 0 {
		return r // what goes with it isn't known
	}
	if r.Action == OneShot {
		p.alone(idParameter, p.id)
		p.alone(inputParameter, p.input)
		if r.Own = object(own); alone && len(own) > 0 {
			r.Own = bytes.Clone(whole)
		}
		return r
	}
	r.ID = p.readID(r.Action)
	switch {
	case r.Action == Apply && p.input == nil:
		p.add([]string{inputParameter}, "required", nil,
			"is required with action %s: give what to type, or the answer", Apply)
	case r.Action == Apply:
		r.Input = p.input
	case p.input != nil:
		p.add([]string{inputParameter}, "dependentRequired", p.input,
			"goes with action %s alone, and the action is %s: leave it out", Apply, r.Action)
	}
	if r.Action == Spawn {
		r.Own = object(own)
		return r
	}
	for _, m := range own {
		p.refuse(r.Action, m)
	}
	return r
}

// alone adds a fault for a parameter that stands without an action.
func (p *parser) alone(name string, v json.RawMessage) {
	if v != nil {
		p.add([]string{name}, "dependentRequired", v, "goes with an action, and there is none: "+
			"give action (%s), or leave %s out", list(p.form.actions), name)
	}
}

// readAction returns the action, if it is one of the tool's.
func (p *parser) readAction() Action {
	name, ok := isText(p.action)
	switch {
	case p.action == nil:
		return OneShot
	case !ok:
		p.add([]string{actionParameter}, "type", p.action, "must be a string: %s",
			list(p.form.actions))
	case !slices.Contains(p.form.actions, Action(name)):
		p.add([]string{actionParameter}, "enum", nil, "%s", unknownAction(name, p.form.actions))
	}
	return Action(name)
}

func (p *parser) readID(a Action) string {
	id, ok := isText(p.id)
	switch {
	case p.id == nil && a == Spawn:
		p.add([]string{idParameter}, "required", nil,
			"is required with action %s: choose an id for the handle, %s", a, idWords)
	case p.id == nil:
		p.add([]string{idParameter}, "required", nil,
			"is required with action %s: give the id that you chose in %s", a, Spawn)
	case !ok:
		p.add([]string{idParameter}, "type", p.id, "must be a string")
	default:
		if err := CheckID(id); err != nil {
			p.add([]string{idParameter}, "pattern", p.id, "%v", err)
		}
	}
	return id
}

// refuse adds a fault for a parameter of the tool's own that stands with an
// action that takes none.
func (p *parser) refuse(a Action, m strictjson.RawMember) {
	name := string(m.Name)
	known := slices.Contains(p.form.own, name) || p.form.open
	switch {
	case known && value(m) == nil:
	case known:
		p.add([]string{name}, "dependentRequired", m.Value, "is a parameter of the tool itself, "+
			"and goes with %s, or with no action; the action is %s: leave it out", Spawn, a)
	default:
		p.unknown(name, p.names())
	}
}

// names returns the parameters of actions that the tool has.
func (p *parser) names() []string {
	if slices.Contains(p.form.actions, Apply) {
		return ours
	}
	return ours[:2]
}

func isText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return strictjson.Unquote(raw), true
}

// object returns members as an object, each value as it was written.
func object(all []strictjson.RawMember) json.RawMessage {
	b := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(strictjson.AppendString(b, m.Name), ':'), m.Value...)
	}
	return append(b, '}')
}

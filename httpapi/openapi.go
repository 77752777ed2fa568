package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fermata-ai/fermata/webhook"
)

// object is JSON that is being written.
type object = map[string]any

// describe returns the OpenAPI document of the routes. It says no more than the
// table of routes, and the Go types in it.
func describe(c *Config, routes []route) (json.RawMessage, error) {
	problem, err := problemShape()
	if err != nil {
		return nil, err
	}
	d := description{schemas: object{}}
	d.problem = d.shape(problem)
	paths := object{}
	for i := range routes {
		r := &routes[i]
		at := c.Path + r.path
		if paths[at] == nil {
			paths[at] = object{}
		}
		paths[at].(object)[strings.ToLower(r.method)] = d.operation(r, c.Limits.MediaTypes)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": "fermata", "version": "1",
			"description": "Sessions of agents whose tool calls may wait."},
		"paths": paths, "components": object{"schemas": d.schemas},
	})
}

// problemShape is what each refusal is.
var problemShape = sync.OnceValues(func() (*shape, error) {
	var f forms
	return shapeOf[webhook.Problem](&f), f.err
})

// description is a document that is being written.
type description struct {
	schemas object // by name
	problem object // a reference
}

// operation describes a route.
func (d *description) operation(r *route, mediaTypes []string) object {
	op := object{"operationId": r.id, "summary": r.summary, "responses": d.answers(r)}
	var parameters []object
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true,
			"schema": json.RawMessage(textSchema)})
	}
	for _, p := range r.query {
		parameters = append(parameters, object{"name": p.name, "in": "query",
			"description": p.about, "schema": json.RawMessage(p.schema)})
	}
	if r.streams {
		parameters = append(parameters, object{"name": "Last-Event-ID", "in": "header",
			"description": "The id of the last event that the client has seen.",
			"schema":      json.RawMessage(textSchema)})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if r.body != nil {
		content := object{"application/json": object{"schema": d.form(r.body)}}
		if r.files != nil {
			content["multipart/form-data"] = object{"schema": object{"allOf": []object{
				{"type": "object", "description": "The members of the JSON, as fields, and files of " +
					strings.Join(mediaTypes, ", ") + " in fields named file."}}}}
		}
		op["requestBody"] = object{"content": content}
	}
	return op
}

// answers describes what a route answers. Each refusal is a problem.
func (d *description) answers(r *route) object {
	all := object{"default": object{"description": "It is refused, and the problem tells why.",
		"content": object{"application/problem+json": object{"schema": d.problem}}}}
	content := object{}
	if r.answer != nil {
		content["application/json"] = object{"schema": d.shape(r.answer)}
	}
	if r.streams {
		stream := object{eventStream: object{"schema": object{"type": "string",
			"description": "Server-sent events. The data of each is an event in JSON, or a Problem."}}}
		if r.status == http.StatusOK {
			maps.Copy(content, stream)
		} else {
			all["200"] = object{"description": "Accept: " + eventStream + " makes a stream of it.",
				"content": stream}
		}
	}
	for _, o := range r.also {
		answer := object{"description": o.about}
		if o.media != "" {
			answer["content"] = object{o.media: object{}}
		}
		all[strconv.Itoa(o.status)] = answer
	}
	status := strconv.Itoa(r.status)
	if all[status] == nil {
		answer := object{"description": http.StatusText(r.status)}
		if len(content) > 0 {
			answer["content"] = content
		}
		all[status] = answer
	}
	return all
}

// form names what a body has to be.
func (d *description) form(f *form) object { return d.named(f.name, f.schema) }

// shape names what an answer is.
func (d *description) shape(s *shape) object {
	if s.name == "" {
		return object{"type": "object"}
	}
	return d.named(s.name, s.schema)
}

func (d *description) named(name string, schema json.RawMessage) object {
	d.schemas[name] = schema
	return object{"$ref": "#/components/schemas/" + name}
}

// opened returns a schema that takes members which aren't listed: they may be
// added to answers.
func opened(schema json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	open(v)
	out, err := json.Marshal(v)
	if err != nil {
		return schema
	}
	return out
}

func open(v any) {
	switch v := v.(type) {
	case object:
		if v["additionalProperties"] == false {
			delete(v, "additionalProperties")
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			open(v[name])
		}
	case []any:
		for _, one := range v {
			open(one)
		}
	}
}
